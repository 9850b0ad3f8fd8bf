// The search box: a combobox over all vertices of the page, also those that are not drawn now.

const search = document.getElementById("search");
const hits = document.getElementById("hits");
const HITS_MAX = 14;
let haystacks = null; // made at the first search: thousands of strings are not needed to show the map
let active = -1;

function haystack(vertex) {
  const details = (vertex.details ?? []).map(([, value]) => value);
  return [vertex.label, data.words.kinds[vertex.kind], groups[vertex.group].label, ...details].join("\n").toLowerCase();
}

// How well a name fits the query: 0 it is the whole name or its last part, 1 the name begins so, 2 its last part does.
function distance(vertex, query) {
  const names = [vertex.label, text(vertex)].map((name) => name.toLowerCase());
  const lasts = names.map((name) => name.slice(name.lastIndexOf("/") + 1));
  if ([...names, ...lasts].includes(query)) return 0;
  if (names.some((name) => name.startsWith(query))) return 1;
  return lasts.some((name) => name.startsWith(query)) ? 2 : 3;
}

// Every word must be somewhere; the names that fit best come first, then by importance.
function found(query) {
  haystacks ??= vertices.map(haystack);
  const asked = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!asked.length) return [];
  const places = [];
  haystacks.forEach((hay, place) => {
    if (asked.every((word) => hay.includes(word))) places.push(place);
  });
  const whole = asked.join(" ");
  const far = new Map(places.map((place) => [place, distance(vertices[place], whole)]));
  return places.sort((one, other) => far.get(one) - far.get(other) || one - other);
}

function showHits() {
  const all = found(search.value);
  const items = all.slice(0, HITS_MAX).map((place, number) => {
    const vertex = vertices[place];
    const about = [data.words.kinds[vertex.kind], groups[vertex.group].label];
    return element(
      "li",
      { role: "option", id: `hit-${number}`, "data-place": place, "aria-selected": "false", onclick: () => take(place) },
      isolated(vertex.label),
      muted(about.join(" · ")),
    );
  });
  const asked = search.value.trim() !== "";
  if (asked && !all.length) items.push(element("li", { class: "none" }, "No match."));
  if (all.length > HITS_MAX) items.push(element("li", { class: "none" }, `and ${words.count(all.length - HITS_MAX)} more`));
  hits.replaceChildren(...items);
  hits.hidden = !asked;
  search.setAttribute("aria-expanded", String(asked));
  activate(all.length ? 0 : -1);
}

function activate(number) {
  const options = hits.querySelectorAll("[role=option]");
  active = options.length ? (number + options.length) % options.length : -1;
  options.forEach((option, place) => option.setAttribute("aria-selected", String(place === active)));
  if (active >= 0) {
    search.setAttribute("aria-activedescendant", `hit-${active}`);
    options[active].scrollIntoView({ block: "nearest" });
  } else search.removeAttribute("aria-activedescendant");
}

function closeHits() {
  hits.hidden = true;
  search.setAttribute("aria-expanded", "false");
  search.removeAttribute("aria-activedescendant");
}

function take(place) {
  closeHits();
  choose({ vertex: place });
}

function startSearch() {
  search.addEventListener("input", showHits);
  search.addEventListener("focus", () => search.value && showHits());
  search.addEventListener("blur", () => setTimeout(closeHits, 150)); // a click on a hit comes first
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (hits.hidden) showHits();
      else activate(active + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter") {
      const option = hits.querySelectorAll("[role=option]")[active];
      if (option && !hits.hidden) take(Number(option.dataset.place));
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (hits.hidden) search.value = "";
      closeHits();
    }
  });
}
