// Sorting of the tables. A table that is whole in the page sorts its rows; of a longer one (vertices, edges) the rows
// are made from the page's data, a hundred at a time.

const PAGE_ROWS = 100;

const vertexCell = (place) => [element("a", { href: `#${vertices[place].anchor}` }, isolated(vertices[place].label))];
const healthCell = (one) => [element("i", { class: `swatch ${one.health}` }), ` ${data.words.healths[one.health]}`];
const detailText = (details) => (details ?? []).map(([name, value]) => `${name} ${value}`).join(" · ");

// Of each column: what it sorts by, and what it shows. The same columns as tables.py makes.
const COLUMNS = {
  vertices: [
    [(_, place) => vertices[place].label, (_, place) => vertexCell(place)],
    [(one) => WORST.indexOf(one.health), (one) => [...healthCell(one), ...(one.message ? [" ", muted(one.message)] : [])]],
    [(one) => data.words.kinds[one.kind], (one) => [data.words.kinds[one.kind]]],
    [(one) => groups[one.group].label, (one) => [isolated(groups[one.group].label)]],
    [(one) => one.rate ?? -1, (one) => [words.rate(one.rate)]],
    [(one) => one.bytes ?? -1, (one) => [words.bytes(one.bytes)]],
    [(one) => one.lag ?? -1, (one) => [words.count(one.lag)]],
    [(one) => one.findings?.length ?? 0, (one) => [String(one.findings?.length ?? "")]],
    [(one) => detailText(one.details), (one) => [isolated(detailText(one.details))]],
  ],
  edges: [
    [(one) => vertices[one.source].label, (one) => vertexCell(one.source)],
    [(one) => vertices[one.target].label, (one) => vertexCell(one.target)],
    [(one) => WORST.indexOf(one.health), healthCell],
    [(one) => data.words.flows[one.kind], (one) => [data.words.flows[one.kind]]],
    [(one) => one.rate ?? -1, (one) => [words.rate(one.rate)]],
    [(one) => one.bytes ?? -1, (one) => [words.bytes(one.bytes)]],
    [(one) => one.lag ?? -1, (one) => [words.count(one.lag)]],
    [(one) => one.failures ?? -1, (one) => [words.count(one.failures)]],
    [(one) => one.p50 ?? -1, (one) => [words.seconds(one.p50)]],
    [(one) => one.p99 ?? -1, (one) => [words.seconds(one.p99)]],
  ],
};

const compare = new Intl.Collator("en", { numeric: true }).compare;
const byValue = (one, other) => (typeof one === "number" && typeof other === "number" ? one - other : compare(one, other));

// How a sorted table gets its rows: `sort(column, sign)`.
function rowsInPage(body) {
  const value = (row, column) => {
    const cell = row.children[column];
    return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
  };
  return (column, sign) => {
    const rows = [...body.rows].map((row) => [value(row, column), row]);
    rows.sort(([one], [other]) => sign * byValue(one, other));
    body.append(...rows.map(([, row]) => row));
  };
}

function rowsFromData(section, body, name, heads) {
  const columns = COLUMNS[name];
  const rows = name === "vertices" ? vertices : edges;
  let order = rows.map((_, place) => place);
  let first = 0;
  const where = element("span", { "aria-live": "polite" });
  const turn = (by) => () => {
    first = Math.min(Math.max(first + by, 0), Math.floor((order.length - 1) / PAGE_ROWS) * PAGE_ROWS);
    fill();
  };
  const back = element("button", { type: "button", onclick: turn(-PAGE_ROWS) }, "Back");
  const on = element("button", { type: "button", onclick: turn(PAGE_ROWS) }, "Next");
  function fill() {
    const made = order.slice(first, first + PAGE_ROWS).map((place) => {
      const cells = columns.map(([, show], column) =>
        element(column ? "td" : "th", { class: heads[column].className || null, scope: column ? null : "row" }, ...show(rows[place], place)),
      );
      return element("tr", { id: name === "vertices" ? vertices[place].anchor : null }, ...cells);
    });
    body.replaceChildren(...made);
    body.closest(".scroll").scrollTop = 0;
    where.textContent = `${words.count(first + 1)} – ${words.count(first + made.length)} of ${words.count(order.length)}`;
    back.disabled = first === 0;
    on.disabled = first + PAGE_ROWS >= order.length;
  }
  section.querySelector(".cut").replaceWith(element("div", { class: "pager" }, back, on, where));
  where.textContent = `1 – ${words.count(body.rows.length)} of ${words.count(order.length)}`;
  back.disabled = true;
  return (column, sign) => {
    const [sortable] = columns[column];
    const values = rows.map(sortable);
    order = rows.map((_, place) => place).sort((one, other) => sign * byValue(values[one], values[other]) || one - other);
    first = 0;
    fill();
  };
}

function startTables() {
  for (const section of document.querySelectorAll("section.table")) {
    const body = section.querySelector("tbody");
    if (!body) continue;
    const heads = [...section.querySelectorAll("thead th")];
    const numeric = heads.map((head) => head.classList.contains("number"));
    const name = section.id.slice("table-".length);
    const longer = section.querySelector(".cut") && COLUMNS[name];
    const sort = longer ? rowsFromData(section, body, name, heads) : rowsInPage(body);
    heads.forEach((head, column) => {
      const press = () => {
        // Figures are looked at from the largest, names from A.
        const first = numeric[column] ? "descending" : "ascending";
        const second = numeric[column] ? "ascending" : "descending";
        const direction = head.getAttribute("aria-sort") === first ? second : first;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", direction);
        sort(column, direction === "ascending" ? 1 : -1);
      };
      head.replaceChildren(element("button", { type: "button", onclick: press }, head.textContent));
    });
  }
}
