// Figures as text, the same as knative/shown.py writes them (a test compares the two).

const root = document.documentElement;
const UNKNOWN = "–";

function digits(value) {
  const size = Math.abs(value);
  if (size < 0.0005) return "0";
  const places = size < 0.0995 ? 3 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  const shown = value.toFixed(places);
  return shown.includes(".") ? shown.replace(/0+$/, "").replace(/\.$/, "") : shown;
}

function quantity(value) {
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= size * 0.9995) return digits(value / size) + letter;
  }
  return digits(value);
}

const words = {
  quantity,
  count: (value) => (value == null ? UNKNOWN : Math.round(value).toLocaleString("en-US")),
  plural: (number, one, many = `${one}s`) => `${words.count(number)} ${number === 1 ? one : many}`,
  rate(value) {
    if (value == null) return UNKNOWN;
    if (value === 0) return "0/s";
    return value > 0 && value < 0.0005 ? "<0.001/s" : `${quantity(value)}/s`;
  },
  bytes(value) {
    if (value == null) return UNKNOWN;
    return value >= 999.5 ? `${quantity(value)}B/s` : `${quantity(Math.round(value))} B/s`;
  },
  seconds(value) {
    if (value == null) return UNKNOWN;
    if (value < 0.9995) return `${digits(value * 1e3)} ms`;
    if (value < 120) return `${digits(value)} s`;
    return value < 7200 ? `${digits(value / 60)} min` : `${digits(value / 3600)} h`;
  },
};

// An element with its attributes and children. Text becomes text nodes, never markup.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (value === true) made.setAttribute(key, "");
    else if (value != null && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

// Text of others, kept from turning the direction of what stands beside it.
const isolated = (text) => element("bdi", {}, text);
const muted = (text) => element("span", { class: "muted" }, isolated(text));
