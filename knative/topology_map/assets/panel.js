// What is chosen, in words, beside the map. All text goes in as text nodes.

const LISTED_MAX = 40;

const MEANINGS = {
  lag: "Events that are stored and not settled yet",
  island: "A part of the map that no line joins to the rest: see the table Islands",
  group: "The consumer group in Kafka",
  retry: "Maximum attempts after the first",
  exhausted: "What happens to an event when its retries are used up",
};

function sign(kind) {
  const space = "http://www.w3.org/2000/svg";
  const drawn = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  for (const [name, value] of [["viewBox", "0 0 16 16"], ["width", "16"], ["height", "16"], ["class", "icon"], ["aria-hidden", "true"]]) {
    drawn.setAttribute(name, value);
  }
  path.setAttribute("d", data.icons[kind]);
  drawn.append(path);
  return drawn;
}

function heading(title, kind, word) {
  return [
    element("p", { class: "kind" }, sign(kind), word),
    element("h3", { id: "panel-title" }, isolated(title)),
  ];
}

function facts(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) {
    if (value == null || value === UNKNOWN) continue;
    list.append(element("dt", { title: MEANINGS[name.toLowerCase()] }, isolated(name)), element("dd", {}, isolated(value)));
  }
  return list.childElementCount ? list : null;
}

function healthLine(one) {
  const line = element("p", { class: "health" }, element("i", { class: `swatch ${one.health}` }), ` ${data.words.healths[one.health]}`);
  if (one.message) line.append(": ", isolated(one.message));
  return line;
}

function findingLinks(places) {
  if (!places?.length) return [];
  const items = places.slice(0, LISTED_MAX).map((place) => {
    const finding = findings[place];
    return element("li", {}, element("a", { href: `#finding-${place}` }, isolated(finding.title)));
  });
  return [element("h4", {}, places.length === 1 ? "Finding" : "Findings"), element("ul", {}, ...items)];
}

// The vertices at the other ends of some edges, the busiest first.
function neighbours(title, places, end) {
  if (!places.length) return [];
  const ordered = [...places].sort((one, other) => (edges[other].rate ?? -1) - (edges[one].rate ?? -1));
  const items = ordered.slice(0, LISTED_MAX).map((place) => {
    const edge = edges[place];
    const about = [data.words.flows[edge.kind]];
    if (edge.rate != null) about.push(words.rate(edge.rate));
    if (edge.failures) about.push(`${words.count(edge.failures)} failed`);
    if (edge.lag) about.push(`lag ${words.count(edge.lag)}`);
    if (edge.p99 != null) about.push(`p99 ${words.seconds(edge.p99)}`);
    const other = end(edge);
    const go = element("button", { type: "button", onclick: () => choose({ vertex: other }) }, isolated(vertices[other].label));
    return element("li", {}, go, muted(about.join(" · ")));
  });
  const more = ordered.length - items.length;
  if (more > 0) items.push(element("li", {}, muted(`and ${words.count(more)} more`)));
  return [element("h4", {}, title), element("ul", {}, ...items)];
}

function vertexPanel(place, path) {
  const vertex = vertices[place];
  const reaches = [
    path.sources ? `fed by ${words.plural(path.sources, "source")}` : null,
    path.downstream.size ? `ends in ${words.plural(path.ends, "place")}, ${words.plural(farthest(path.downstream), "hop")} at most` : null,
  ].filter(Boolean);
  return [
    ...heading(vertex.label, vertex.kind, vertex.roles ? vertex.roles.join(", ") : data.words.kinds[vertex.kind]),
    healthLine(vertex),
    vertex.page && element("p", { class: "actions" }, element("a", { href: vertex.page }, "Open its page")),
    facts([
      ["Events", words.rate(vertex.rate)],
      ["Bytes", words.bytes(vertex.bytes)],
      ["Lag", words.count(vertex.lag)],
      ["Namespace", groups[vertex.group].shared ? null : groups[vertex.group].label],
      ["Island", vertex.island],
      ["Stands for", vertex.count && words.plural(vertex.count, "vertex", "vertices")],
      ...(vertex.details ?? []),
    ]),
    reaches.length ? element("p", { class: "path muted" }, `The whole path is highlighted: ${reaches.join(", ")}.`) : null,
    ...findingLinks(vertex.findings),
    ...neighbours("From", entering[place], (edge) => edge.source),
    ...neighbours("To", leaving[place], (edge) => edge.target),
    reached("Upstream", path.upstream),
    reached("Downstream", path.downstream),
  ];
}

// Everything in one direction, the nearest first and the busiest of these: what `penstock topology impact` prints.
function reached(title, hops) {
  if (!hops.size) return null;
  const places = [...hops.keys()].sort((one, other) => hops.get(one) - hops.get(other) || (vertices[other].rate ?? 0) - (vertices[one].rate ?? 0));
  const items = places.slice(0, LISTED_MAX).map((place) => {
    const { kind, health, rate, lag } = vertices[place];
    const about = [words.plural(hops.get(place), "hop"), data.words.kinds[kind], data.words.healths[health], words.rate(rate)];
    if (lag) about.push(`lag ${words.count(lag)}`);
    const go = element("button", { type: "button", onclick: () => choose({ vertex: place }) }, isolated(vertices[place].label));
    return element("li", {}, go, muted(about.join(" · ")));
  });
  if (places.length > items.length) items.push(element("li", {}, muted(`and ${words.count(places.length - items.length)} more`)));
  const about = `${title}: ${words.plural(places.length, "vertex", "vertices")}, ${words.plural(farthest(hops), "hop")} at most`;
  return element("details", { class: "reached" }, element("summary", {}, about), element("ul", {}, ...items));
}

function groupPanel(node) {
  const places = node.members;
  const kinds = new Map();
  for (const place of places) kinds.set(vertices[place].kind, (kinds.get(vertices[place].kind) ?? 0) + (vertices[place].count ?? 1));
  const numbers = new Set(places.map((place) => vertices[place].group));
  const found = [...new Set(places.flatMap((place) => vertices[place].findings ?? []))].sort((one, other) => one - other);
  const name = node.id === "others" ? `${numbers.size} other namespaces` : groups[node.group].label;
  const rest = node.id[0] === "r";
  const busiest = [...places].filter((place) => vertices[place].rate > 0).sort((one, other) => vertices[other].rate - vertices[one].rate);
  return [
    ...heading(rest ? `${words.count(node.size)} more of ${name}` : name, rest ? "rest" : "group", rest ? "not drawn individually" : "namespace"),
    healthLine(node),
    facts([...kinds].map(([kind, count]) => [data.words.kinds[kind], words.count(count)])),
    node.id === "others" || rest ? null : element("p", { class: "actions" }, element("button", { type: "button", onclick: () => toggle(node.group) }, "Open")),
    rest ? element("p", { class: "path muted" }, "To see a vertex here, search for it or click it in a table.") : null,
    ...findingLinks(found),
    ...flows("From", node, (link) => link.target === node.id && link.source),
    ...flows("To", node, (link) => link.source === node.id && link.target),
    ...(busiest.length ? [element("h4", {}, "Busiest"), element("ul", {}, ...busiest.slice(0, 12).map(vertexLine))] : []),
  ];
}

// What a namespace has to do with others, the busiest first.
function flows(title, node, other) {
  const links = [...shown.links.values()].filter((link) => other(link) && other(link) !== node.id);
  if (!links.length) return [];
  links.sort((one, two) => (two.rate ?? -1) - (one.rate ?? -1));
  const items = links.slice(0, LISTED_MAX).map((link) => {
    const end = shown.nodes.get(other(link));
    const name = end.own ? vertices[end.place].label : end.group === null ? "other namespaces" : groups[end.group].label;
    const go = element("button", { type: "button", onclick: () => choose(end.own ? { vertex: end.place } : { node: end.id }) }, isolated(name));
    return element("li", {}, go, muted([words.rate(link.rate), words.plural(link.members.length, "connection")].join(" · ")));
  });
  return [element("h4", {}, title), element("ul", {}, ...items)];
}

function vertexLine(place) {
  const vertex = vertices[place];
  const go = element("button", { type: "button", onclick: () => choose({ vertex: place }) }, isolated(vertex.label));
  return element("li", {}, go, muted([data.words.kinds[vertex.kind], words.rate(vertex.rate)].join(" · ")));
}

function linkPanel(link) {
  const own = link.members.map((place) => edges[place]);
  const [edge] = own;
  if (own.length === 1) {
    return [
      element("p", { class: "kind" }, data.words.flows[edge.kind]),
      element("h3", { id: "panel-title" }, isolated(text(vertices[edge.source])), " → ", isolated(text(vertices[edge.target]))),
      healthLine(edge),
      facts([
        ["Events", words.rate(edge.rate)],
        ["In the window", edge.events == null ? null : words.plural(edge.events, "event")],
        ["Bytes", words.bytes(edge.bytes)],
        ["Lag", words.count(edge.lag)],
        ["Failures", words.count(edge.failures)],
        ["p50", words.seconds(edge.p50)],
        ["p99", words.seconds(edge.p99)],
        ["Stands for", edge.count && words.plural(edge.count, "connection")],
        ...(edge.details ?? []),
      ]),
      element("h4", {}, "Between"),
      element("ul", {}, vertexLine(edge.source), vertexLine(edge.target)),
    ];
  }
  return [
    element("p", { class: "kind" }, `${words.plural(own.length, "connection")} as one`),
    element("h3", { id: "panel-title" }, words.rate(link.rate)),
    healthLine(link),
    ...neighbours("From here", link.members, (one) => one.source),
    ...neighbours("To here", link.members, (one) => one.target),
  ];
}

function findingPanel(place) {
  const finding = findings[place];
  return [
    element("p", { class: "kind" }, "Finding"),
    element("h3", { id: "panel-title" }, isolated(finding.title)),
    element("p", { class: "path" }, element("a", { href: `#finding-${place}` }, "Evidence and remedy")),
    element("h4", {}, "Where"),
    element("ul", {}, ...finding.vertices.slice(0, LISTED_MAX).map(vertexLine)),
  ];
}

// Show these parts; none hides the panel.
function tell(parts) {
  const shut = element("button", { type: "button", class: "shut", "aria-label": "Close", onclick: () => choose(null) }, "×");
  panel.replaceChildren(...(parts.length ? [shut] : []), ...parts.filter(Boolean));
  panel.hidden = !parts.length;
  panel.scrollTop = 0;
}
