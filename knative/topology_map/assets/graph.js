// The whole graph of the page, as its data has it, with its edges by vertex. Knows nothing of what is shown.
//
// Vertices are in order of importance: a smaller place = more worth showing.

let data = null;
let vertices, edges, groups, findings, leaving, entering, byAnchor;
let WORST, SEVERITIES; // healths and severities, the worst first

// Take this data as the graph. It is completed in place.
function load(given) {
  data = given;
  ({ vertices, edges, groups, findings } = data);
  WORST = Object.keys(data.words.healths);
  SEVERITIES = Object.keys(data.words.severities);
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

// Everything that an event on its way to or from this vertex passes: places of vertices and edges, and how many hops it
// is to each vertex upstream and downstream.
function wholePath(start) {
  const path = { vertices: new Set([start]), edges: new Set() };
  path.upstream = walk(start, entering, (edge) => edge.source, path);
  path.downstream = walk(start, leaving, (edge) => edge.target, path);
  path.sources = [...path.upstream.keys()].filter((place) => vertices[place].kind === "source").length;
  path.ends = [...path.downstream.keys()].filter((place) => leaving[place].length === 0).length;
  return path;
}

// Places of vertices -> hops, the nearest first; without the start.
function walk(start, steps, end, path) {
  const hops = new Map();
  let frontier = [start];
  for (let far = 1; frontier.length; far += 1) {
    const next = [];
    for (const place of frontier) {
      for (const step of steps[place]) {
        path.edges.add(step);
        const other = end(edges[step]);
        if (other !== start && !hops.has(other)) {
          hops.set(other, far);
          next.push(other);
        }
      }
    }
    frontier = next;
  }
  for (const place of hops.keys()) path.vertices.add(place);
  return hops;
}

const farthest = (hops) => Math.max(0, ...hops.values());
