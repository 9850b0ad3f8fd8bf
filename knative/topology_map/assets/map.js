// The map on its canvas: Cytoscape with our elements, the colours of the theme, and what is lit at the moment.

const canvas = document.getElementById("canvas");
const panel = document.getElementById("panel");
const still = !matchMedia("(prefers-reduced-motion: no-preference)").matches;
const FONT_PX = 13;
const ZOOM_MIN = 0.08;
const ZOOM_MAX = 2.5;
const READABLE = 0.76; // smaller than this, names are guessed rather than read
const SIDE = 16; // room around the whole
const HEIGHT_MIN = 340; // there is the panel beside it
const HINT = 40; // under it, for the line of help that lies over the map of a wide window
let map = null;
let shown = null;

const measure = (() => {
  const context = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.body).fontFamily;
  return (line, size, weight = "") => {
    context.font = `${weight} ${size}px ${family}`;
    return context.measureText(line).width;
  };
})();

// Colours as the style sheet has them for the theme now; light-dark() is resolved by asking for a used colour.
function palette() {
  const probe = element("span", { hidden: true });
  document.body.append(probe);
  const names = ["ink", "muted", "surface", "raised", "rule", "edge", "accent", ...WORST, ...SEVERITIES];
  const colours = {};
  for (const name of names) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return colours;
}

// What is drawn in a box besides its name: a bar in the colour of its health, the sign of its kind, a dot for findings.
function signs(node, colours) {
  const { width, height } = node;
  const middle = height / 2 - 8;
  const thick = node.kind === "rest" ? 2 : 1.35;
  const dot = node.severity ? `<circle cx="${width - 10}" cy="10" r="4" fill="${colours[node.severity]}"/>` : "";
  const mark = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" fill="none" stroke-linecap="round" stroke-linejoin="round">
    <path d="M5 8v${height - 16}" stroke="${colours[node.health]}" stroke-width="3"/>
    <path transform="translate(14 ${middle})" d="${data.icons[node.kind]}" stroke="${colours.muted}" stroke-width="${thick}"/>${dot}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(mark)}`;
}

function nodeData(node, colours) {
  const group = groups[node.group];
  let kind = "group";
  let lines = [];
  if (node.own) {
    const vertex = vertices[node.place];
    kind = vertex.kind;
    lines = [text(vertex)];
  } else if (node.id[0] === "r") {
    kind = "rest";
    lines = [`${words.count(node.size)} more`];
  } else {
    const names = new Set(node.members.map((place) => vertices[place].group));
    const found = new Set(node.members.flatMap((place) => vertices[place].findings ?? []));
    const about = words.plural(node.size, "vertex", "vertices");
    lines = [
      node.id === "others" ? `${names.size} other namespaces` : group.label,
      found.size ? `${about} · ${words.plural(found.size, "finding")}` : about,
    ];
  }
  node.kind = kind;
  node.height = lines.length > 1 ? GROUP_HEIGHT : NODE_HEIGHT;
  node.width = Math.ceil(Math.max(...lines.map((line) => measure(line, FONT_PX)))) + (node.severity ? 58 : 48);
  return {
    id: node.id,
    text: lines.join("\n"),
    shift: node.severity ? 10 : 14,
    width: node.width,
    height: node.height,
  };
}

function elementsOf(view, colours) {
  const nodes = [...view.nodes.values()];
  const own = nodes.map((node) => ({ data: nodeData(node, colours), classes: `${node.health} ${node.kind}` }));
  const ratio = canvas.clientWidth / Math.max(canvas.clientHeight, 1);
  layOut(view, measure, ratio);
  own.forEach((one, place) => {
    const node = nodes[place];
    one.position = { x: node.x, y: node.y };
    one.data.width = node.width;
    one.data.image = signs(node, colours);
  });
  const links = [...view.links.values()].map((link) => {
    const bent = bends(link, view.nodes.get(link.source), view.nodes.get(link.target));
    const { id, source, target } = link;
    return {
      data: { id, source, target, label: labelOf(link), flow: thickness(link), ...bent },
      classes: classesOf(link),
    };
  });
  return [...framesOf(nodes), ...own, ...links];
}

const thickness = (link) => (link.rate ? Math.min(1.1 + 0.5 * Math.log10(1 + link.rate), 3.6) : 1);
const labelOf = (link) => (!link.across && link.label) || "";

function classesOf(link) {
  const health = link.idle && link.health !== "failed" ? "idle" : link.health;
  const shape = link.source === link.target ? ["loop"] : link.across ? ["across"] : [];
  return [link.kind, health, ...shape, ...(link.loop ? ["critical"] : [])];
}

// The frames of open namespaces, around what stands in them.
function framesOf(nodes) {
  const frames = new Map();
  for (const node of nodes) {
    if (node.parent === null) continue;
    const box = frames.get(node.parent) ?? { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
    box.left = Math.min(box.left, node.x - node.width / 2 - FRAME);
    box.right = Math.max(box.right, node.x + node.width / 2 + FRAME);
    box.top = Math.min(box.top, node.y - node.height / 2 - FRAME);
    box.bottom = Math.max(box.bottom, node.y + node.height / 2 + FRAME);
    frames.set(node.parent, box);
  }
  return [...frames].map(([place, box]) => {
    const width = box.right - box.left;
    const name = groups[place].label;
    // The title stands over the left corner; Cytoscape knows only the middle.
    const shift = measure(name, 12, "600") / 2 - width / 2 + 2;
    return {
      data: { id: `p${place}`, text: name, width, height: box.bottom - box.top, shift },
      position: { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 },
      classes: "frame",
    };
  });
}

function styles(colours) {
  const family = getComputedStyle(document.body).fontFamily;
  const lines = { ok: colours.edge, unknown: colours.edge, idle: colours.idle, degraded: colours.degraded, failed: colours.failed };
  const lit = { "line-color": colours.accent, "target-arrow-color": colours.accent, "z-index": 9 };
  return [
    {
      selector: "node",
      style: {
        shape: "round-rectangle", "corner-radius": 8, "background-color": colours.surface, "border-width": 1, "border-color": colours.rule,
        label: "data(text)", color: colours.ink, "font-family": family, "font-size": FONT_PX, "line-height": 1.35,
        "text-wrap": "wrap", "text-max-width": 1000, "text-valign": "center", "text-halign": "center",
        "min-zoomed-font-size": 5, "overlay-opacity": 0,
      },
    },
    {
      selector: "node[image]",
      style: {
        width: "data(width)", height: "data(height)", "text-margin-x": "data(shift)", "background-image": "data(image)", "background-fit": "none", "background-clip": "none",
        "background-width": "data(width)", "background-height": "data(height)",
      },
    },
    { selector: "node.degraded", style: { "border-color": colours.degraded } },
    { selector: "node.failed", style: { "border-color": colours.failed, "border-width": 1.5 } },
    { selector: "node.idle", style: { color: colours.muted } },
    { selector: "node.rest", style: { "border-style": "dashed", color: colours.muted } },
    {
      selector: "node.frame",
      style: {
        width: "data(width)", height: "data(height)", "background-color": colours.raised, "background-opacity": 0.5,
        "corner-radius": 12, "font-size": 12, "font-weight": 600, color: colours.muted, "text-valign": "top",
        "text-margin-y": -4, "text-margin-x": "data(shift)", "min-zoomed-font-size": 4, "z-index": -1, "z-index-compare": "manual",
      },
    },
    {
      selector: "edge",
      style: {
        width: "data(flow)", "line-color": colours.edge, "target-arrow-color": colours.edge, "target-arrow-shape": "triangle",
        "arrow-scale": 0.75, "curve-style": "round-segments", "edge-distances": "endpoints", "segment-radii": 26,
        "source-endpoint": "data(from)", "target-endpoint": "data(to)", "target-distance-from-node": 1,
        "segment-weights": "data(weights)", "segment-distances": "data(distances)",
        label: "data(label)", color: colours.muted, "font-family": family, "font-size": LABEL_PX, "min-zoomed-font-size": 4.5,
        "text-background-color": colours.surface, "text-background-opacity": 1, "text-background-padding": 3,
        "text-background-shape": "round-rectangle", "overlay-opacity": 0,
      },
    },
    ...Object.entries(lines).map(([health, colour]) => ({
      selector: `edge.${health}`,
      style: { "line-color": colour, "target-arrow-color": colour },
    })),
    { selector: "edge.critical", style: { "line-color": colours.critical, "target-arrow-color": colours.critical, width: "mapData(flow, 1, 3.6, 2.2, 4)", "z-index": 5 } },
    { selector: "edge.replies", style: { "line-style": "dashed", "line-dash-pattern": [7, 4] } },
    { selector: "edge.dead-letters", style: { "line-style": "dashed", "line-dash-pattern": [1.5, 4], "line-cap": "round" } },
    { selector: "edge.loop", style: { "curve-style": "bezier", "loop-direction": "-45deg", "source-endpoint": "outside-to-node", "target-endpoint": "outside-to-node" } },
    {
      selector: "edge.across",
      style: { "curve-style": "straight", "source-endpoint": "outside-to-node", "target-endpoint": "outside-to-node", "target-arrow-shape": "none", opacity: 0.2, "z-index": -1, "z-index-compare": "manual" },
    },
    { selector: ".faded", style: { opacity: 0.16 } },
    { selector: "node.frame.faded", style: { opacity: 0.6 } },
    { selector: "edge.lit", style: lit },
    { selector: "edge.across.lit", style: { opacity: 0.9, "target-arrow-shape": "triangle" } },
    { selector: "edge.across.faded", style: { opacity: 0.05 } },
    { selector: "node.lit", style: { "border-color": colours.accent } },
    { selector: "node.chosen", style: { "border-color": colours.accent, "border-width": 2.5 } },
    { selector: "edge.chosen", style: { ...lit, "underlay-color": colours.accent, "underlay-opacity": 0.2, "underlay-padding": 4 } },
  ];
}

// Draw what is visible now, from the beginning.
function draw() {
  const colours = palette();
  shown = visible();
  const all = elementsOf(shown, colours);
  if (map === null) {
    map = cytoscape({
      container: canvas, elements: all, style: styles(colours), layout: { name: "preset", fit: false },
      minZoom: ZOOM_MIN, maxZoom: ZOOM_MAX, boxSelectionEnabled: false, autounselectify: true, autoungrabify: true,
      // The wheel scrolls the page until the map has the focus; see use.js.
      userZoomingEnabled: false, pixelRatio: "auto", hideEdgesOnViewport: false,
    });
  } else {
    map.batch(() => {
      map.elements().remove();
      map.add(all);
    });
  }
  shrink();
  if (state.rates === null) {
    // At the start: figures at the lines only where names stay readable with them; the panel and the tables have them too.
    state.rates = zoomOfAll() >= READABLE;
    if (!state.rates) return draw();
  }
  fit(false);
  // What is on the canvas, for those who cannot look into it: tests.
  canvas.dataset.boxes = shown.nodes.size;
  canvas.dataset.lines = shown.links.size;
}

function recolour() {
  const colours = palette();
  map.batch(() => {
    for (const node of shown.nodes.values()) {
      map.getElementById(node.id).data("image", signs(node, colours));
    }
    map.style(styles(colours));
  });
}

// The part of the canvas that the panel does not cover.
function freeWidth() {
  const over = !panel.hidden && getComputedStyle(panel).position === "sticky";
  return canvas.clientWidth - (over ? panel.offsetWidth : 0);
}

// The room for the map on its canvas.
function stage() {
  return [freeWidth() - 2 * SIDE, canvas.clientHeight - SIDE - (canvas.clientWidth < 600 ? SIDE : HINT)];
}

// As tall as the whole map needs, so that it opens fitted: what comes after a small map is nearer then, and a tall one can
// be read without dragging it. If that takes more than two windows, the canvas stays as it is, and shows a part.
function shrink() {
  canvas.style.height = "";
  const at = map.elements().boundingBox();
  const [width, height] = stage();
  const zoom = Math.min(width / at.w, Math.max(READABLE, height / at.h), 1.1);
  const need = Math.ceil(at.h * zoom + canvas.clientHeight - height);
  if (need < canvas.clientHeight || (zoom >= READABLE && need <= 2 * innerHeight)) canvas.style.height = `${Math.max(need, HEIGHT_MIN)}px`;
  map.resize();
}

function zoomOfAll() {
  const [width, height] = stage();
  const at = map.elements().boundingBox();
  return Math.min(width / at.w, height / at.h, 1.1);
}

// Show everything; or, at first, as much as can be read, with what the worst finding is about in the middle.
function fit(all = true) {
  map.stop();
  const [width, height] = stage();
  const at = map.elements().boundingBox();
  const zoom = all ? zoomOfAll() : Math.max(zoomOfAll(), READABLE);
  const worst = all ? null : worstPlace();
  // Where the middle of `worst` comes to the middle of the room, but with no empty room at a side for it.
  const begin = (start, size, room, middle) => {
    if (size * zoom <= room) return (room - size * zoom) / 2 - start * zoom;
    const wanted = middle === undefined ? -start * zoom : room / 2 - middle * zoom;
    return Math.min(Math.max(wanted, room - (start + size) * zoom), -start * zoom);
  };
  map.viewport({ zoom, pan: { x: SIDE + begin(at.x1, at.w, width, worst?.x), y: SIDE + begin(at.y1, at.h, height, worst?.y) } });
  canvas.dataset.zoom = zoom.toFixed(3);
}

// The middle of what the worst finding is about, where it is on the map.
function worstPlace() {
  const ids = vertices.flatMap((vertex, place) => (vertex.findings?.includes(0) ? [shown.represented[place]] : []));
  const some = map.collection(ids.filter(Boolean).map((id) => map.getElementById(id)));
  if (some.empty()) return null;
  const box = some.boundingBox();
  return { x: (box.x1 + box.x2) / 2, y: (box.y1 + box.y2) / 2 };
}

// Light up vertices and edges of the whole graph (their places), wherever they are shown; fade everything else.
function light(path, chosen) {
  const ids = new Set();
  for (const place of path.vertices) if (shown.represented[place]) ids.add(shown.represented[place]);
  map.batch(() => {
    map.elements().removeClass("faded lit chosen");
    map.nodes().forEach((node) => {
      if (node.hasClass("frame")) return;
      node.addClass(ids.has(node.id()) ? "lit" : "faded");
    });
    map.edges().forEach((edge) => {
      const on = shown.links.get(edge.id()).members.some((place) => path.edges.has(place));
      edge.addClass(on ? "lit" : "faded");
    });
    for (const id of chosen) map.getElementById(id).addClass("chosen");
  });
  canvas.dataset.lit = map.nodes(".lit").length;
}

function unlight() {
  delete canvas.dataset.lit;
  map.elements().removeClass("faded lit chosen");
}

// Bring elements into the free part of the window; nearer only when they cannot be read from here.
function lookAt(ids) {
  const some = map.collection(ids.map((id) => map.getElementById(id)).filter((one) => one.length));
  if (some.empty()) return;
  const box = some.renderedBoundingBox();
  const [width, height] = [freeWidth(), canvas.clientHeight];
  const inside = box.x1 >= 0 && box.y1 >= 0 && box.x2 <= width && box.y2 <= height;
  if (inside && map.zoom() >= READABLE) return;
  const room = Math.min((width - 80) / box.w, (height - 80) / box.h) * map.zoom();
  const zoom = Math.min(Math.max(map.zoom(), READABLE), Math.max(room, ZOOM_MIN));
  const at = some.boundingBox();
  const pan = { x: width / 2 - (zoom * (at.x1 + at.x2)) / 2, y: height / 2 - (zoom * (at.y1 + at.y2)) / 2 };
  map.stop();
  if (still) map.viewport({ zoom, pan });
  else map.animate({ zoom, pan }, { duration: 220 });
}
