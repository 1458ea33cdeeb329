/* Comfort only: every page and every act works without this script. */
(() => {
  "use strict";
  const REFRESH = 15000;
  const main = document.getElementById("main");
  const typing = (target) => target.closest("input, select, textarea") !== null;

  /* A page is fetched again, in place, while nobody is in the middle of something on it: after each sample of the
     server where it hears of them, else every 15 s. A hidden tab closes its stream. */
  const live = document.getElementById("live");
  const held = () =>
    main.querySelector(".pick:checked, form:focus-within input, details[open]") !== null ||
    String(document.getSelection()) !== "";
  const say = (state, how) => {
    live.dataset.state = state;
    live.querySelector(".how").textContent = how;
  };
  const fetched = () => { live.querySelector(".time").textContent = document.getElementById("as-of").textContent; };
  const refresh = () => {
    if (document.hidden) return;
    if (held()) say("plain", "Held, as of");
    else main.dispatchEvent(new Event("stale"));
  };
  let events = null;
  const listen = () => {
    if (events || document.hidden || main.dataset.every !== "events") return;
    events = new EventSource(main.dataset.events);
    events.addEventListener("hello", () => say("live", "Live ·"));
    events.addEventListener("stale", () => { say("live", "Live ·"); refresh(); });
    events.addEventListener("error", () => say("stale", "Not live, as of"));
  };
  if (main.hasAttribute("hx-get")) {
    document.addEventListener("htmx:after:swap", fetched);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) { events?.close(); events = null; } else { listen(); refresh(); }
    });
    setInterval(() => { if (!events || events.readyState === EventSource.CLOSED) refresh(); }, REFRESH);
    listen();
  }

  document.addEventListener("change", (event) => {
    if (event.target.matches(".pick-all")) {
      for (const box of document.querySelectorAll(".pick")) box.checked = event.target.checked;
    }
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) navigator.clipboard.writeText(button.dataset.copy).then(() => { button.textContent = "Copied"; });
  });

  /* Keys: / search, g and a letter for a page, j and k for rows. */
  const pages = { o: "/", e: "/errors", j: "/jobs", q: "/queues", w: "/workers", s: "/schedules", a: "/audit" };
  let going = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (going) {
      const link = document.querySelector(`.rail a[href$="${pages[event.key] ?? "-"}"]`);
      going = false;
      if (link) link.click();
    } else if (event.key === "g") {
      going = true;
    } else if (event.key === "/") {
      event.preventDefault();
      document.querySelector(".search input").focus();
    } else if (event.key === "j" || event.key === "k") {
      const links = [...main.querySelectorAll("tbody th a")];
      const place = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
      if (links[place]) links[place].focus();
    }
  });
})();
