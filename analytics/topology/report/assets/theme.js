// Runs in the head, before anything is drawn: says that scripts run, and takes up the colours chosen last time.
const root = document.documentElement;
root.classList.add("js");
try {
  const chosen = localStorage.getItem("penstock-theme");
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
} catch {
  // Storage is off (private window, file of another origin): the system's colours it is.
}
