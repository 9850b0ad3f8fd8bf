// The whole graph of the page, as its data has it, with its edges by vertex. Knows nothing of what is shown.
//
// Vertices are in order of importance: a smaller place = more worth showing.

let data = null;
let vertices, edges, groups, findings, leaving, entering, byAnchor;
const WORST = ["failed", "degraded", "unknown", "ok", "idle"];
const SEVERITIES = ["critical", "warning", "info"];

// Take this data as the graph. It is completed in place.
function load(given) {
  data = given;
  ({ vertices, edges, groups, findings } = data);
  leaving = vertices.map(() => []);
  entering = vertices.map(() => []);
  edges.forEach((edge, place) => {
    leaving[edge.source].push(place);
    entering[edge.target].push(place);
  });
  groups.forEach((group) => {
    group.members = [];
    group.findings = new Set();
  });
  findings.forEach((finding) => (finding.vertices = []));
  vertices.forEach((vertex, place) => {
    const group = groups[vertex.group];
    group.members.push(place);
    group.health = worse(group.health, vertex.health);
    for (const finding of vertex.findings ?? []) {
      group.findings.add(finding);
      findings[finding].vertices.push(place);
    }
  });
  byAnchor = new Map(vertices.map((vertex, place) => [vertex.anchor, place]));
}

function worse(one, other, order = WORST) {
  if (one == null || other == null) return one ?? other;
  return order.indexOf(one) <= order.indexOf(other) ? one : other;
}

const isIdle = (edge) => edge.rate === 0 || edge.health === "idle";
const sum = (one, other) => (one == null ? other : other == null ? one : one + other);
const text = (vertex) => vertex.short ?? vertex.label;

// Everything that an event on its way to or from this vertex passes: places of vertices and edges, and how far it goes.
function wholePath(start) {
  const path = { vertices: new Set([start]), edges: new Set(), sources: 0, ends: 0, hops: 0 };
  const up = walk(start, entering, (edge) => edge.source, path);
  const down = walk(start, leaving, (edge) => edge.target, path);
  path.sources = up.reached.filter((place) => vertices[place].kind === "source").length;
  path.ends = down.reached.filter((place) => leaving[place].length === 0).length;
  path.hops = down.hops;
  return path;
}

function walk(start, steps, end, path) {
  const seen = new Set([start]);
  let hops = 0;
  let frontier = [start];
  while (frontier.length) {
    const next = [];
    for (const place of frontier) {
      for (const step of steps[place]) {
        path.edges.add(step);
        const other = end(edges[step]);
        if (!seen.has(other)) {
          seen.add(other);
          next.push(other);
        }
      }
    }
    if (next.length) hops += 1;
    frontier = next;
  }
  seen.forEach((place) => path.vertices.add(place));
  seen.delete(start);
  return { reached: [...seen], hops };
}
