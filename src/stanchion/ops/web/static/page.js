/* Comfort only: every page and every act works without this script. */
(() => {
  "use strict";
  const REFRESH = 15000;
  const main = document.getElementById("main");
  const typing = (target) => target.closest("input, select, textarea") !== null;

  /* A page is fetched again while nobody is in the middle of something on it. */
  const held = () =>
    document.hidden ||
    main.querySelector(".pick:checked, form:focus-within input, details[open]") !== null ||
    String(document.getSelection()) !== "";
  if (main.hasAttribute("hx-get")) {
    setInterval(() => { if (!held()) main.dispatchEvent(new Event("stale")); }, REFRESH);
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
  const pages = { j: "/jobs", q: "/queues", w: "/workers", s: "/schedules", a: "/audit" };
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
