// What pages do beside htmx: they say whether they are live, rest in the background, and copy commands.
// A page is complete without this file.
"use strict";

const live = document.getElementById("live");
const link = document.querySelector("[data-link]");
const words = { live: "Live", lost: "Connection lost, trying again", resting: "Paused in the background", still: "Not live" };

function say(state) {
  if (link === null || link.dataset.link === state) return;
  link.dataset.link = state;
  link.lastElementChild.textContent = words[state];
}

if (live !== null && link !== null) {
  live.addEventListener("htmx:sseOpen", () => (document.hidden ? rest() : say("live")));
  live.addEventListener("htmx:sseError", () => say("lost"));

  // The extension closes and opens the stream of an element at these events of htmx.
  const rest = () => {
    htmx.trigger(live, "htmx:beforeCleanupElement");
    say("resting");
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) rest();
    else if (link.dataset.link === "resting") htmx.trigger(live, "htmx:afterProcessNode");
  });
}

// In a narrow window the pages are a strip that scrolls: it begins where this page is.
const here = document.querySelector("nav [aria-current]");
if (here !== null) {
  const nav = here.parentElement;
  nav.scrollLeft = here.offsetLeft - nav.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
}

// A click on a command copies it.
document.addEventListener("click", (event) => {
  const command = event.target.closest("code.command");
  if (command === null || navigator.clipboard === undefined) return;
  navigator.clipboard.writeText(command.textContent).then(() => {
    command.classList.add("copied");
    setTimeout(() => command.classList.remove("copied"), 1200);
  });
});

// Choices of a form that filters take effect at once.
document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-filters]");
  if (form !== null && event.target.matches("select")) form.requestSubmit();
});
