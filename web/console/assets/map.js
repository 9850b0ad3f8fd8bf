// The live map: takes new data when the page says that there is some, keeps everything in its place, and lets dots run
// along the edges. Joined to the scripts of knative/topology_map, and not loaded by itself.

const live = document.getElementById("live");
const FRAME_MS = 33; // dots are drawn at most 30 times a second
const DOTS_MAX = 1500;
const MOVING_MAX = 200; // edges with dots: the busiest
const ZOOM_OF_DOTS = 0.2; // smaller than this, dots would be dust

// -- data

let version = null;
let isFetching = false;

// What the page says of the newest data: it is part of its live part.
const newest = () => document.getElementById("map-state")?.dataset ?? {};

async function follow() {
  if (isFetching || newest().version === version || newest().version === undefined) return;
  isFetching = true;
  try {
    const answer = await fetch(`${location.pathname}.json`, { headers: { Accept: "application/json" } });
    if (!answer.ok) return; // the page itself says what is wrong
    const asked = newest().version;
    receive(await answer.json());
    version = asked;
  } catch {
    // The connection is gone; the page says so, and comes back here when it is there again.
  } finally {
    isFetching = false;
  }
}

function receive(given) {
  const isFirst = data === null;
  const names = isFirst ? null : namesOfState();
  load(isFirst ? given : inPlace(given));
  canvas.dataset.vertices = vertices.length;
  if (!vertices.length && map === null) return;
  if (map === null) {
    firstState();
    state.hideIdle = false; // what is idle now is not in a minute, and the map should keep its places
    startUse(() => {});
    root.dataset.ready = "1";
    return;
  }
  if (names !== null) restore(names);
  const kept = sameShape() ? null : map.zoom();
  if (kept === null) update();
  else {
    const pan = { ...map.pan() };
    draw();
    if (chosen !== null) map.viewport({ zoom: kept, pan });
  }
  showControls();
  if (chosen !== null) tellAgain();
}

// The same vertices stay at the places that they had, so that everything that is chosen, open or drawn stays what it is.
function inPlace(given) {
  const same = given.vertices.length === vertices.length && given.vertices.every((vertex) => byAnchor.has(vertex.anchor));
  if (!same) return given;
  const places = given.vertices.map((vertex) => byAnchor.get(vertex.anchor));
  const ordered = [];
  given.vertices.forEach((vertex, place) => (ordered[places[place]] = vertex));
  const moved = given.edges.map((edge) => ({ ...edge, source: places[edge.source], target: places[edge.target] }));
  return { ...given, vertices: ordered, edges: moved };
}

// What is open and chosen, by name: places may be others in new data.
function namesOfState() {
  return {
    open: [...state.open].map((place) => groups[place].label),
    revealed: [...state.revealed].map((place) => vertices[place].anchor),
    vertex: chosen?.vertex != null ? vertices[chosen.vertex].anchor : null,
    finding: chosen?.finding != null ? findings[chosen.finding].title : null,
    all: state.open.size === groups.length,
  };
}

function restore(names) {
  const labels = new Set(names.open);
  state.open = new Set(groups.flatMap((group, place) => (names.all || labels.has(group.label) ? [place] : [])));
  state.revealed = new Set(names.revealed.map((anchor) => byAnchor.get(anchor)).filter((place) => place !== undefined));
  if (names.vertex !== null) chosen = byAnchor.has(names.vertex) ? { vertex: byAnchor.get(names.vertex) } : null;
  if (names.finding !== null) {
    const place = findings.findIndex((finding) => finding.title === names.finding);
    chosen = place < 0 ? null : { finding: place };
  }
}

// Whether the same boxes and lines are to be drawn.
function sameShape() {
  const next = visible();
  const same = (one, other) => one.size === other.size && [...one.keys()].every((id) => other.has(id));
  return same(next.nodes, shown.nodes) && same(next.links, shown.links);
}

// New figures, colours and labels for what is drawn.
function update() {
  const former = shown;
  const colours = palette();
  shown = visible();
  const marks = ["lit", "faded", "chosen"];
  const classes = (element, own) => element.classes([...own, ...marks.filter((mark) => element.hasClass(mark))]);
  map.batch(() => {
    for (const node of shown.nodes.values()) {
      const { x, y, width, height } = former.nodes.get(node.id);
      const values = nodeData(node, colours);
      Object.assign(node, { x, y, width, height });
      const drawn = map.getElementById(node.id);
      drawn.data({ text: values.text, shift: values.shift, image: signs(node, colours) });
      classes(drawn, [node.health, node.kind]);
    }
    for (const link of shown.links.values()) {
      const { across, points, from, to } = former.links.get(link.id);
      Object.assign(link, { across, points, from, to });
      const drawn = map.getElementById(link.id);
      drawn.data({ label: labelOf(link), flow: thickness(link) });
      classes(drawn, classesOf(link));
    }
  });
}

// The panel with new figures, at the line and with the focus that it had.
function tellAgain() {
  const top = panel.scrollTop;
  const places = () => [...panel.querySelectorAll("a, button")];
  const focused = places().indexOf(document.activeElement);
  choose(chosen, false);
  panel.scrollTop = top;
  places()[focused]?.focus({ preventScroll: true });
}

// -- dots

const reduced = matchMedia("(prefers-reduced-motion: reduce)");
const motion = element("canvas", { id: "motion", "aria-hidden": "true" });
let drawnAt = 0;

const isStill = () => reduced.matches || "away" in newest() || document.querySelector("[data-link]")?.dataset.link !== "live";

// The points of a drawn edge, from its source to its target, in the map's coordinates. Its corners are round.
function pointsOf(drawn) {
  const all = [drawn.sourceEndpoint(), ...(drawn.segmentPoints() ?? []), drawn.targetEndpoint()];
  return all.flatMap((corner, place) => (place > 0 && place < all.length - 1 ? round(all[place - 1], corner, all[place + 1]) : [corner]));
}

function round(before, corner, after) {
  const between = (from, to, share) => ({ x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share });
  const [begin, end] = [between(corner, before, 0.5), between(corner, after, 0.5)];
  return [0, 0.25, 0.5, 0.75, 1].map((share) => between(between(begin, corner, share), between(corner, end, share), share));
}

function runDots(at) {
  requestAnimationFrame(runDots);
  if (at - drawnAt < FRAME_MS) return;
  drawnAt = at;
  const pen = motion.getContext("2d");
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
  if (motion.width !== width || motion.height !== height) [motion.width, motion.height] = [width, height];
  else pen.clearRect(0, 0, width, height);
  const moving = map === null || isStill() || map.zoom() < ZOOM_OF_DOTS ? [] : busiest();
  canvas.dataset.moving = moving.length;
  if (!moving.length) return;
  const { x, y } = map.pan();
  pen.setTransform(map.zoom() * scale, 0, 0, map.zoom() * scale, x * scale, y * scale);
  let dots = 0;
  for (const link of moving) {
    const drawn = map.getElementById(link.id);
    if (drawn.empty() || drawn.hasClass("faded")) continue;
    pen.fillStyle = drawn.style("line-color");
    dots += dotLine(pen, pointsOf(drawn), link.rate, at / 1000, DOTS_MAX - dots);
  }
  pen.setTransform(1, 0, 0, 1, 0, 0);
}

const busiest = () =>
  [...shown.links.values()]
    .filter((link) => link.rate > 0 && !link.across && link.source !== link.target)
    .sort((one, other) => other.rate - one.rate)
    .slice(0, MOVING_MAX);

// Dots along a line; more events are more dots, and faster ones.
function dotLine(pen, points, rate, time_s, dots_max) {
  const much = Math.log10(1 + rate);
  const gap = Math.max(16, 90 / (1 + much));
  let next = (time_s * (30 + 30 * much)) % gap;
  let passed = 0;
  let dots = 0;
  for (let place = 1; place < points.length; place += 1) {
    const [from, to] = [points[place - 1], points[place]];
    const length = Math.hypot(to.x - from.x, to.y - from.y);
    for (; next < passed + length && dots < dots_max; next += gap, dots += 1) {
      const share = (next - passed) / length;
      pen.beginPath();
      pen.arc(from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share, 2.4, 0, 7);
      pen.fill();
    }
    passed += length;
  }
  return dots;
}

// -- start

canvas.append(motion); // as large as the map, also where the line of help is below it
// What a person has unfolded stays so when the live part changes.
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name) => name !== "open";
live.addEventListener("htmx:sseMessage", follow);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map !== null && recolour());
requestAnimationFrame(runDots);
follow();
