// Keeps a page live, and lets it be used by keys. Pages work without it, too.
"use strict";
(() => {
  const root = document.documentElement;
  const store = {
    get() { try { return localStorage.getItem("fairqueue-theme"); } catch { return null; } },
    set(value) { try { localStorage.setItem("fairqueue-theme", value); } catch { /* private mode */ } },
  };
  if (store.get()) root.dataset.theme = store.get();

  function switchTheme() {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    store.set(root.dataset.theme);
  }

  // Changes only what differs, so that focus, selection and what is typed stay.
  function follow(old, now) {
    if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) { old.replaceWith(now.cloneNode(true)); return; }
    if (old.nodeType === Node.TEXT_NODE) { if (old.data !== now.data) old.data = now.data; return; }
    if (old.nodeType !== Node.ELEMENT_NODE) return;
    for (const { name } of [...old.attributes]) if (!now.hasAttribute(name) && name !== "open" && !(name === "class" && old.matches("[data-row]"))) old.removeAttribute(name);
    for (const { name, value } of [...now.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const before = [...old.childNodes], after = [...now.childNodes];
    after.forEach((child, n) => { if (before[n]) follow(before[n], child); else old.append(child.cloneNode(true)); });
    before.slice(after.length).forEach((child) => child.remove());
  }

  function listen() {
    const live = document.getElementById("live"), state = document.getElementById("live-state");
    if (!state || !live || !live.children.length) return;
    const query = new URLSearchParams(location.search);
    query.set("page", document.body.dataset.path);
    const source = new EventSource(`${document.body.dataset.base}/live?${query}`);
    const trouble = document.getElementById("trouble");
    source.onopen = () => { state.className = "live on"; state.title = "Live"; };
    source.onerror = () => { state.className = "live off"; state.title = "Not live: connecting again"; };
    source.addEventListener("part", (event) => {
      const page = document.createElement("div");
      page.innerHTML = event.data;
      const wanted = document.createElement("div");
      wanted.id = "live";
      wanted.append(...page.childNodes);
      follow(live, wanted);
      trouble.hidden = true;
    });
    source.addEventListener("trouble", (event) => { trouble.textContent = event.data; trouble.hidden = false; });
    addEventListener("pagehide", () => source.close());
  }

  let going = 0;
  function move(by) {
    const rows = [...document.querySelectorAll("tr[data-row]")];
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.classList.contains("at"));
    rows.forEach((row) => row.classList.remove("at"));
    const row = rows[Math.min(rows.length - 1, Math.max(0, at + by))];
    row.classList.add("at");
    row.scrollIntoView({ block: "nearest" });
    row.querySelector("a")?.focus({ preventScroll: true });
  }
  function go(letter) {
    const link = document.querySelector(`nav a[data-key="${CSS.escape(letter)}"]`);
    if (link) link.click();
  }
  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, dialog[open]")) { if (event.key === "Escape") event.target.blur(); return; }
    if (Date.now() - going < 1500) { going = 0; event.preventDefault(); go(event.key); return; }
    const does = { g: () => { going = Date.now(); }, "/": () => document.getElementById("find")?.focus(), j: () => move(1), k: () => move(-1), t: switchTheme, "?": () => document.getElementById("help").showModal() };
    if (does[event.key]) { event.preventDefault(); does[event.key](); }
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", switchTheme);
    document.addEventListener("submit", (event) => {
      const question = event.target.dataset.confirm;
      if (question && !confirm(question)) event.preventDefault();
    });
    document.addEventListener("keydown", keys);
    document.querySelector("nav [aria-current='page']")?.scrollIntoView({ block: "nearest", inline: "center" });
    listen();
  });
})();
