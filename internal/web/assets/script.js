// Fetches the page again whenever the server says that something has changed. Without it the page reloads itself.
"use strict";
(() => {
  const lost = (is) => document.body.classList.toggle("lost", is);
  const refresh = async (changed) => {
    const answer = await fetch(location.href, { cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("content");
    if (!fresh) throw new Error("that is not the page");
    const content = document.getElementById("content");
    const open = new Set([...content.querySelectorAll("details[open]")].map((one) => one.id));
    const focused = content.contains(document.activeElement) ? document.activeElement.id : "";
    content.replaceChildren(...fresh.childNodes);
    for (const one of content.querySelectorAll("details")) one.open = one.open || open.has(one.id);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    if (changed) document.getElementById("said").textContent = `Changed at ${new Date().toLocaleTimeString()}`;
    lost(false);
  };
  let revision = document.body.dataset.revision;
  const events = new EventSource(document.body.dataset.events);
  events.onmessage = (event) => {
    if (event.data === revision && !document.body.classList.contains("lost")) return;
    const changed = revision.split("-")[0] !== event.data.split("-")[0];
    revision = event.data;
    refresh(changed).catch(() => lost(true));
  };
  events.onerror = () => lost(true);
})();
