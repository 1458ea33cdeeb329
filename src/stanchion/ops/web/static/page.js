/* Comfort only: every page and every act works without this script. */
(() => {
  "use strict";
  const REFRESH = 15000;
  const main = document.getElementById("main");
  const typing = (target) => target.closest("input, select, textarea") !== null;

  /* A page is fetched again, in place, while no one is in the middle of something on it: when it hears that one of its
     topics is stale, else every 15 s. A hidden tab closes its stream. */
  const live = document.getElementById("live");
  let paused = false;
  const held = () =>
    paused || main.querySelector(".pick:checked, form:focus-within :is(input, textarea), details[open]") !== null ||
    String(document.getSelection()) !== "";
  const say = (state, how) => {
    live.dataset.state = state;
    live.querySelector(".how").textContent = how;
  };
  const fetched = () => {
    const told = document.getElementById("as-of");
    live.querySelector(".time").textContent = told.textContent;
    for (const badge of document.querySelectorAll("[data-need]")) {
      const count = told.dataset[badge.dataset.need];
      badge.hidden = !count;
      if (count) badge.firstChild.data = count;
    }
  };
  const refresh = () => {
    if (document.hidden) return;
    if (held()) say("plain", "Held, as of");
    else main.dispatchEvent(new Event("stale"));
  };
  let events = null;
  const listen = () => {
    if (events || document.hidden || !main.dataset.events) return;
    events = new EventSource(main.dataset.events);
    events.addEventListener("hello", () => say("live", "Live ·"));
    events.addEventListener("stale", () => { say("live", "Live ·"); refresh(); });
    events.addEventListener("error", () => say("stale", "Not live, as of"));
  };
  const poll = () => {
    if (events?.readyState === EventSource.CLOSED) events = null; /* refused: there are too many streams */
    if (!events) refresh();
    polls += 1;
    if (polls % 4 === 0) listen();
  };
  let polls = 0;
  let tag = null;
  if (main.hasAttribute("hx-get")) {
    document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
      if (tag) ctx.request.headers["If-None-Match"] = tag;
    });
    document.addEventListener("htmx:after:request", (event) => {
      const { ctx } = event.detail;
      if (ctx.response.status === 200) tag = ctx.response.headers.get("ETag");
      if (ctx.response.status === 503) { /* the last figures stay */
        event.preventDefault();
        say("stale", "The store is slow, as of");
      }
    });
    document.addEventListener("htmx:after:swap", fetched);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) { events?.close(); events = null; } else { listen(); refresh(); }
    });
    setInterval(poll, REFRESH);
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

  /* Keys, unless they are turned off; see the dialog that ? shows. */
  if (document.body.dataset.keys === "off") return;
  const pages = {
    o: "/", e: "/errors", j: "/jobs", q: "/queues", f: "/flows", p: "/pipelines", s: "/schedules", w: "/workers",
    m: "/managers", t: "/streams", l: "/semaphores", r: "/report", a: "/audit",
  };
  const help = document.getElementById("keys");
  const rows = () => [...main.querySelectorAll("tbody th a, .links a")];
  const press = (selector) => main.querySelector(selector)?.click();
  let going = false;
  let ticked = null;
  const step = (by) => {
    const links = rows();
    const place = links.indexOf(document.activeElement) + by;
    if (links[place]) links[place].focus();
  };
  const tick = (range) => {
    const boxes = [...main.querySelectorAll(".pick")];
    const box = document.activeElement.closest("tr")?.querySelector(".pick");
    if (!box) return;
    box.checked = !box.checked;
    const [from, to] = [boxes.indexOf(ticked), boxes.indexOf(box)].sort((one, other) => one - other);
    if (range && from >= 0) for (const each of boxes.slice(from, to + 1)) each.checked = true;
    ticked = box;
  };
  const keys = {
    "/": () => document.querySelector(".search input").focus(),
    "?": () => help.showModal(),
    g: () => { going = true; },
    j: () => step(1), k: () => step(-1), x: () => tick(false), X: () => tick(true),
    r: () => press('button[name="act"][value="retry"], .actions a[href$="/retry"], .actions a[href*="act=retry"]'),
    c: () => press('button[name="act"][value="cancel"], .actions a[href$="/cancel"]'),
    p: () => press('.actions a[href*="/pause/"], .actions a[href*="/resume/"], .actions a[href*="-pipeline/"]'),
    "[": () => press("a.newer"), "]": () => press("a.older"),
    l: () => { paused = !paused; if (paused) say("plain", "Held, as of"); else refresh(); },
    t: () => document.querySelector(".topbar .theme")?.click(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || help.open) return;
    const act = going ? undefined : keys[event.key];
    if (going) {
      going = false;
      document.querySelector(`.rail a[href$="${pages[event.key] ?? "-"}"]`)?.click();
    } else if (act) {
      event.preventDefault();
      act();
    } else if (event.key === "Escape") {
      document.activeElement.blur();
    }
  });
})();
