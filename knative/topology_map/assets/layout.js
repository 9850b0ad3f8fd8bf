// Where everything stands: dagre for each connected part, from left to right, and the parts in rows.

const NODE_HEIGHT = 34;
const GROUP_HEIGHT = 50;
const PARTS_GAP = 44;
const CARDS_MAX = 20;
const TOGETHER_MAX = 150;
const CARDS_GAP = 22;
const LABEL_PX = 10.5;
const FRAME = 12; // of an open namespace, around its boxes
const TITLE = 20; // over the frame
const STUB = 12; // how far a link runs level at its ends

// Parts of the shown graph that are laid out for themselves: what links or an open namespace hold together.
//
// Closed namespaces that send to each other criss-cross would make a layered drawing unreadable. They become
// one grid of cards then; each open namespace is a part of its own, and links between parts run straight (`across`).
// The same goes for so many vertices that one drawing of all of them would take seconds.
function partsOf(shown) {
  const closed = (id) => shown.nodes.get(id).parent === null;
  const cards = [...shown.nodes.keys()].filter(closed).length;
  const among = [...shown.links.values()].filter((link) => closed(link.source) && closed(link.target)).length;
  const dense = (cards > CARDS_MAX && among > cards) || shown.nodes.size - cards > TOGETHER_MAX;
  const leader = new Map();
  const find = (id) => {
    while (leader.get(id) !== id) id = leader.get(id);
    return id;
  };
  const join = (one, other) => leader.set(find(one), find(other));
  const first = new Map();
  for (const node of shown.nodes.values()) {
    const home = node.parent === null && dense ? "cards" : node.parent;
    leader.set(node.id, node.id);
    if (home === null) continue;
    if (first.has(home)) join(node.id, first.get(home));
    else first.set(home, node.id);
  }
  if (!dense) for (const link of shown.links.values()) join(link.source, link.target);
  const parts = new Map();
  for (const node of shown.nodes.values()) {
    const id = find(node.id);
    if (!parts.has(id)) parts.set(id, { nodes: [], links: [], grid: dense && node.parent === null });
    parts.get(id).nodes.push(node);
  }
  for (const link of shown.links.values()) {
    const part = parts.get(find(link.source));
    link.across = find(link.source) !== find(link.target) || part.grid;
    if (!link.across) part.links.push(link);
  }
  return [...parts.values()];
}

// Cards in rows, by name, about as wide as the window asks for.
function layGrid(part, ratio) {
  const width = Math.max(...part.nodes.map((node) => node.width));
  const columns = Math.max(Math.round(Math.sqrt((part.nodes.length * ratio * (GROUP_HEIGHT + CARDS_GAP)) / (width + CARDS_GAP))), 1);
  part.nodes.sort((one, other) => (one.group ?? Infinity) - (other.group ?? Infinity));
  part.nodes.forEach((node, place) => {
    if (node.parent === null) node.width = width;
    node.x = (place % columns) * (width + CARDS_GAP) + width / 2;
    node.y = Math.floor(place / columns) * (GROUP_HEIGHT + CARDS_GAP) + GROUP_HEIGHT / 2;
  });
  const rows = Math.ceil(part.nodes.length / columns);
  return { left: 0, top: 0, right: columns * (width + CARDS_GAP), bottom: rows * (GROUP_HEIGHT + CARDS_GAP) };
}

// The part as dagre sees it; null where dagre gives up, which it does with some nested graphs.
function dagreGraph(part, compound, measure) {
  const graph = new dagre.graphlib.Graph({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 16, edgesep: compound ? 20 : 10, ranksep: 24, ranker: "tight-tree", acyclicer: "greedy" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of part.nodes) {
    graph.setNode(node.id, { width: node.width, height: node.height });
    if (!compound || node.parent === null) continue;
    if (!graph.hasNode(`p${node.parent}`)) graph.setNode(`p${node.parent}`, {});
    graph.setParent(node.id, `p${node.parent}`);
  }
  for (const link of part.links) {
    link.labelWidth = link.label ? measure(link.label, LABEL_PX) + 12 : 0;
    const weight = link.kind === "dead-letters" || link.kind === "replies" ? 1 : 3;
    graph.setEdge(link.source, link.target, { width: link.labelWidth, height: link.label ? 18 : 0, labelpos: "c", weight }, link.id);
  }
  try {
    dagre.layout(graph);
    return graph;
  } catch {
    return null;
  }
}

function layPart(part, measure, ratio) {
  const parents = new Set(part.nodes.map((node) => node.parent));
  // One namespace alone needs no nesting: all of the part is in it.
  const graph = (parents.size > 1 && dagreGraph(part, true, measure)) || dagreGraph(part, false, measure);
  if (graph === null) {
    part.links.forEach((link) => (link.across = true));
    part.links = [];
    return layGrid(part, ratio);
  }
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  const grow = (x, y) => {
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y);
  };
  for (const node of part.nodes) {
    const at = graph.node(node.id);
    node.x = at.x;
    node.y = at.y;
    const framed = node.parent !== null;
    grow(at.x - node.width / 2 - (framed ? FRAME : 0), at.y - node.height / 2 - (framed ? FRAME + TITLE : 0));
    grow(at.x + node.width / 2 + (framed ? FRAME : 0), at.y + node.height / 2 + (framed ? FRAME : 0));
  }
  for (const link of part.links) {
    link.from = graph.node(link.source);
    link.to = graph.node(link.target);
    link.points = withLevels(graph.edge(link.source, link.target, link.id).points, link);
    link.points.forEach((point) => grow(point.x, point.y));
  }
  return box;
}

// A link runs level where it leaves, behind its label, and where it arrives; slanting lines are in between.
function withLevels(points, link) {
  const side = link.from.x <= link.to.x ? 1 : -1;
  const first = { x: link.from.x + (side * link.from.width) / 2, y: link.from.y };
  const last = { x: link.to.x - (side * link.to.width) / 2, y: link.to.y };
  const inner = points.slice(1, -1);
  const middle = (inner.length - 1) / 2;
  const level = inner.flatMap((point, place) => {
    if (!link.label || place !== middle) return [point];
    const half = side * (link.labelWidth / 2 + 2);
    return [{ x: point.x - half, y: point.y }, { x: point.x + half, y: point.y }];
  });
  return [first, { x: first.x + side * STUB, y: first.y }, ...level, { x: last.x - side * STUB, y: last.y }, last];
}

// Lay out all parts; the largest first, the small ones in rows under it, about as wide as the window asks for.
function layOut(shown, measure, ratio) {
  const placed = partsOf(shown).map((part) => ({ part, box: part.grid ? layGrid(part, ratio) : layPart(part, measure, ratio) }));
  const area = ({ box }) => (box.right - box.left + PARTS_GAP) * (box.bottom - box.top + PARTS_GAP);
  placed.sort((one, other) => area(other) - area(one));
  const all = placed.reduce((so_far, one) => so_far + area(one), 0);
  const widest = Math.max(...placed.map(({ box }) => box.right - box.left), 0);
  const limit = Math.max(widest, Math.sqrt(all * ratio));
  let x = 0;
  let y = 0;
  let row = 0;
  for (const { part, box } of placed) {
    const width = box.right - box.left;
    if (x > 0 && x + width > limit) {
      x = 0;
      y += row + PARTS_GAP;
      row = 0;
    }
    move(part, x - box.left, y - box.top);
    x += width + PARTS_GAP;
    row = Math.max(row, box.bottom - box.top);
  }
}

function move(part, dx, dy) {
  for (const node of part.nodes) {
    node.x += dx;
    node.y += dy;
  }
  for (const link of part.links) link.points = link.points.map((point) => ({ x: point.x + dx, y: point.y + dy }));
}

// The bends of a link as Cytoscape wants them: how far along the straight line between its ends, and how far beside it.
// A link leaves in the middle of the right side and arrives in the middle of the left one; one that runs back, vice versa.
function bends(link, source, target) {
  const side = source.x <= target.x ? 1 : -1;
  const start = { x: source.x + (side * source.width) / 2, y: source.y };
  const dx = target.x - (side * target.width) / 2 - start.x;
  const dy = target.y - start.y;
  const length = Math.hypot(dx, dy);
  const inner = link.points?.slice(1, -1) ?? [];
  const bent = { from: `${side * 50}% 0%`, to: `${side * -50}% 0%`, weights: [0.5], distances: [0] };
  if (length >= 1 && inner.length) {
    bent.weights = inner.map((at) => ((at.x - start.x) * dx + (at.y - start.y) * dy) / (length * length));
    bent.distances = inner.map((at) => ((at.y - start.y) * dx - (at.x - start.x) * dy) / length);
  }
  return bent;
}
