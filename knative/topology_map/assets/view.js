// What of the graph is on the map now: which namespaces are open, what is hidden, what stands for the rest.
//
//   vertex --> itself                     its namespace is open and it is among the most important there
//          --> the rest of its namespace  open, but there is not room for it
//          --> its namespace              closed
//          --> other namespaces           closed, and among too many
//          --> nothing                    idle, and idle ones are hidden

const OPEN_MAX = 100; // vertices as themselves, at the start, before namespaces are closed
const SHOWN_MAX = 240; // vertices as themselves, over all open namespaces
const GROUPS_MAX = 80;
const OPEN_GROUPS_MAX = 60; // that are opened at once; the most important ones
const LABELS_MAX = 60;

const state = {
  open: new Set(),
  hideIdle: false,
  rates: null, // null: as there is room at the first drawing
  revealed: new Set(), // vertices that were asked for: shown even where there is not room
};

function firstState() {
  const large = vertices.length > OPEN_MAX;
  if (!large || groups.length === 1) groups.forEach((_, place) => state.open.add(place));
  state.hideIdle = large && edges.some((edge) => edge.rate != null);
}

// The elements of the map: {nodes, links}; `node` of each vertex place, or null.
function visible() {
  const represented = representatives();
  const nodes = new Map();
  vertices.forEach((vertex, place) => {
    const id = represented[place];
    if (id === null) return;
    const node = nodes.get(id) ?? newNode(id, vertex, place);
    node.members.push(place);
    node.size += vertex.count ?? 1;
    node.health = worse(node.health, vertex.health);
    node.severity = worse(node.severity, vertex.severity, SEVERITIES);
    nodes.set(id, node);
  });
  return { nodes, links: visibleLinks(represented), represented };
}

function newNode(id, vertex, place) {
  const own = id[0] === "v";
  const parent = own || id[0] === "r" ? vertex.group : null;
  return { id, own, place: own ? place : null, group: id === "others" ? null : vertex.group, parent, members: [], size: 0 };
}

// Places of groups: the one with the most important vertex first.
function byImportance() {
  return groups.map((_, place) => place).sort((one, other) => groups[one].members[0] - groups[other].members[0]);
}

function representatives() {
  const closed = byImportance().filter((place) => !state.open.has(place));
  const far = new Set(closed.length > GROUPS_MAX ? closed.slice(GROUPS_MAX - 1) : []);
  const room = Math.max(Math.floor(SHOWN_MAX / Math.max(state.open.size, 1)), 4);
  const taken = groups.map(() => 0);
  return vertices.map((vertex, place) => {
    if (state.hideIdle && isQuiet(place)) return null;
    if (!state.open.has(vertex.group)) return far.has(vertex.group) ? "others" : `g${vertex.group}`;
    const asked = state.revealed.has(place);
    if (vertex.kind === "rest" || (taken[vertex.group] >= room && !asked)) return `r${vertex.group}`;
    taken[vertex.group] += 1;
    return `v${place}`;
  });
}

// Nothing came by here in the window, and there is nothing to say about it.
function isQuiet(place) {
  const around = [...entering[place], ...leaving[place]];
  const marked = vertices[place].findings || state.revealed.has(place);
  return !marked && around.length > 0 && around.every((edge) => isIdle(edges[edge]));
}

function visibleLinks(represented) {
  const links = new Map();
  edges.forEach((edge, place) => {
    const source = represented[edge.source];
    const target = represented[edge.target];
    if (source === null || target === null || (state.hideIdle && isIdle(edge))) return;
    const own = source[0] === "v" && target[0] === "v";
    if (source === target && !own) return;
    const kind = own ? edge.kind : "sum";
    const id = `${source}>${target}>${kind}`;
    const link = links.get(id) ?? { id, source, target, kind, members: [], idle: true };
    link.members.push(place);
    link.rate = sum(link.rate, edge.rate);
    link.health = worse(link.health, edge.health);
    link.idle &&= isIdle(edge);
    link.loop ||= edge.loop === true;
    links.set(id, link);
  });
  const labelled = [...links.values()].filter((link) => link.rate > 0).sort((one, other) => other.rate - one.rate);
  for (const link of state.rates !== false ? labelled.slice(0, LABELS_MAX) : []) link.label = words.rate(link.rate);
  return links;
}

// Make sure that these vertices can be seen as themselves. True when that changed the map.
function reveal(places) {
  let changed = false;
  const shown = representatives();
  for (const place of places) {
    if (shown[place] === `v${place}` || vertices[place].kind === "rest") continue;
    state.open.add(vertices[place].group);
    state.revealed.add(place);
    changed = true;
  }
  return changed;
}
