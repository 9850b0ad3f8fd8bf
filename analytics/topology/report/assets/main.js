// Puts the parts of the report together. Last, it says that the page is ready.

// A link to a finding that is folded away unfolds it first.
function openFolded(fragment) {
  const card = fragment.startsWith("#finding-") && document.getElementById(fragment.slice(1));
  const folded = card && card.closest("details");
  if (folded) folded.open = true;
}

function startTheme() {
  const names = { auto: "Auto", light: "Light", dark: "Dark" };
  const button = document.getElementById("theme");
  const show = () => {
    const now = names[root.dataset.theme ?? "auto"];
    button.textContent = `◐ ${now}`;
    button.setAttribute("aria-label", `Theme: ${now}`);
    if (map) recolour();
  };
  button.addEventListener("click", () => {
    const order = ["auto", "light", "dark"];
    const next = order[(order.indexOf(root.dataset.theme ?? "auto") + 1) % order.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem("penstock-theme", next);
    } catch {
      // It is not kept then.
    }
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

function start() {
  load(JSON.parse(document.getElementById("data").textContent));
  if (vertices.length) {
    firstState();
    startUse(openFolded);
  }
  startTables();
  startTheme();
  // For tests and measurements: from here on the page answers.
  root.dataset.ready = "1";
  performance.mark("ready");
}

start();
