// How the map is used: what is chosen, the controls, keys, links into the map.

const said = document.getElementById("said");
const hint = document.getElementById("hint");
const controls = Object.fromEntries(["collapse", "idle", "rates", "fit", "zoom-in", "zoom-out"].map((id) => [id, document.getElementById(id)]));
const PAN_PX = 70;
let chosen = null;

// `what`: {vertex: place} | {link: id} | {node: id of a namespace or rest} | {finding: place} | null.
function choose(what, look = true) {
  chosen = what;
  const places = what?.vertex != null ? [what.vertex] : what?.finding != null ? findings[what.finding].vertices : [];
  if (reveal(places)) {
    draw();
    showControls();
  }
  if (what?.vertex != null) {
    const path = wholePath(what.vertex);
    const id = shown.represented[what.vertex];
    light(path, [id]);
    tell(vertexPanel(what.vertex, path));
    say(`${vertices[what.vertex].label}, ${data.words.kinds[vertices[what.vertex].kind]}`);
    if (look) lookAt([id]);
  } else if (what?.finding != null) {
    const among = new Set(places);
    const between = edges.map((_, place) => place).filter((place) => among.has(edges[place].source) && among.has(edges[place].target));
    const ids = places.map((place) => shown.represented[place]);
    light({ vertices: among, edges: new Set(between) }, ids);
    tell(findingPanel(what.finding));
    say(findings[what.finding].title);
    if (look) lookAt(ids);
  } else if (what?.link != null) {
    const link = shown.links.get(what.link);
    const ends = link.members.flatMap((place) => [edges[place].source, edges[place].target]);
    light({ vertices: new Set(ends), edges: new Set(link.members) }, [what.link]);
    tell(linkPanel(link));
  } else if (what?.node != null) {
    const node = shown.nodes.get(what.node);
    const around = node.members.flatMap((place) => [...entering[place], ...leaving[place]]);
    const ends = around.flatMap((place) => [edges[place].source, edges[place].target]);
    light({ vertices: new Set([...ends, ...node.members]), edges: new Set(around) }, [what.node]);
    tell(groupPanel(node));
    if (look) lookAt([what.node]);
  } else {
    unlight();
    tell([]);
  }
}

function say(what) {
  if (said.textContent !== what) said.textContent = what;
}

// Open or close a namespace.
function toggle(group) {
  if (state.open.has(group)) {
    state.open.delete(group);
    groups[group].members.forEach((place) => state.revealed.delete(place));
  } else state.open.add(group);
  redraw();
  say(`${groups[group].label} is ${state.open.has(group) ? "open" : "closed"}`);
}

// Draw again after a change of what is shown. A chosen vertex stays chosen while it can be seen.
function redraw() {
  const stays = chosen?.vertex != null && representatives()[chosen.vertex] === `v${chosen.vertex}`;
  if (!stays) choose(null);
  draw();
  showControls();
  if (stays) choose(chosen, false);
}

function showControls() {
  controls.collapse.checked = state.open.size === 0;
  controls.collapse.indeterminate = state.open.size > 0 && state.open.size < groups.length;
  controls.idle.checked = state.hideIdle;
  controls.rates.checked = state.rates;
  const hidden = shown.represented.filter((id) => id === null).length;
  const parts = [];
  if (hidden) parts.push(`${words.plural(hidden, "idle vertex", "idle vertices")} hidden`);
  if (state.open.size < groups.length) parts.push("Click a namespace for its figures, double click to open it");
  if (map.zoom() > 1.01 * zoomOfAll()) parts.push("This is a part of the map: drag it, or press Fit to see all of it");
  hint.textContent = parts.join(" · ") || "Click a box or a line to see its path and figures. Drag to move the map; after a click, the wheel zooms.";
}

function startControls() {
  controls.collapse.addEventListener("change", () => {
    state.open = new Set(controls.collapse.checked ? [] : byImportance().slice(0, OPEN_GROUPS_MAX));
    state.revealed.clear();
    redraw();
  });
  controls.idle.addEventListener("change", () => {
    state.hideIdle = controls.idle.checked;
    redraw();
  });
  controls.rates.addEventListener("change", () => {
    state.rates = controls.rates.checked;
    redraw();
  });
  controls.fit.addEventListener("click", fitAll);
  controls["zoom-in"].addEventListener("click", () => zoomBy(1.3));
  controls["zoom-out"].addEventListener("click", () => zoomBy(1 / 1.3));
}

function fitAll() {
  fit();
  showControls();
}

function zoomBy(factor) {
  map.zoom({ level: map.zoom() * factor, renderedPosition: { x: canvas.clientWidth / 2, y: canvas.clientHeight / 2 } });
}

function startMap() {
  map.on("tap", (event) => {
    canvas.focus({ preventScroll: true });
    const target = event.target;
    if (target === map || target.hasClass("frame")) choose(null);
    else if (target.isEdge()) choose({ link: target.id() });
    else {
      const node = shown.nodes.get(target.id());
      choose(node.own ? { vertex: node.place } : { node: node.id });
    }
  });
  map.on("dbltap", "node", (event) => {
    const id = event.target.id();
    const group = id[0] === "p" ? Number(id.slice(1)) : shown.nodes.get(id).group;
    if (id[0] === "p" || id[0] === "g") toggle(group);
  });
  // Only a map that has the focus takes the wheel: otherwise the page could not be scrolled past it.
  canvas.addEventListener("focus", () => map.userZoomingEnabled(true));
  canvas.addEventListener("blur", () => map.userZoomingEnabled(false));
  canvas.addEventListener("keydown", onKey);
  panel.addEventListener("keydown", (event) => event.key === "Escape" && choose(null));
  const pan = { ArrowLeft: [PAN_PX, 0], ArrowRight: [-PAN_PX, 0], ArrowUp: [0, PAN_PX], ArrowDown: [0, -PAN_PX] };
  const keys = { "+": () => zoomBy(1.3), "=": () => zoomBy(1.3), "-": () => zoomBy(1 / 1.3), 0: fitAll, Escape: () => choose(null) };
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (pan[event.key]) map.panBy({ x: pan[event.key][0], y: pan[event.key][1] });
    else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault();
  }
}

// Links to vertices (#v-...) choose them in the map instead of jumping to their rows. `other` gets the fragment of every
// other link.
function startLinks(other) {
  document.addEventListener("click", (event) => {
    const fragment = event.target.closest?.("a[href^='#']")?.getAttribute("href") ?? "";
    const place = byAnchor.get(fragment.slice(1));
    const finding = event.target.closest?.("[data-finding]")?.dataset.finding;
    if (place === undefined && finding === undefined) {
      other(fragment);
      return;
    }
    event.preventDefault();
    choose(finding === undefined ? { vertex: place } : { finding: Number(finding) });
    document.getElementById("map").scrollIntoView();
    canvas.focus({ preventScroll: true });
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    search.focus();
  });
}

// The vertex that the page's address names.
function chooseLinked() {
  const place = byAnchor.get(location.hash.slice(1));
  if (place !== undefined) choose({ vertex: place });
}

// Draw the loaded graph, and take clicks and keys from now on.
function startUse(other) {
  draw();
  startMap();
  startControls();
  startSearch();
  startLinks(other);
  showControls();
  chooseLinked();
  // The browser goes to the row of that name when all is loaded; the map is what was meant.
  addEventListener("load", () => chosen && document.getElementById("map").scrollIntoView());
  addEventListener("hashchange", chooseLinked);
  addEventListener("resize", () => {
    shrink();
    if (!chosen) fit(false);
  });
}
