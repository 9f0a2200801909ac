// Refreshes the page in place, and asks questions in a dialog. The page works without it too.
"use strict";

const main = document.getElementById("main");
const dialog = document.getElementById("dialog");
const pause = document.getElementById("pause");
const SELDOM_MS = 10000; // a screen reader announces changes no more often
const LATE_MS = 30000;
let paused = false;
let lastSaid = Date.now();

// Changes only what differs, so that focus, scroll, selection and open elements stay as they are.
function take(old, now) {
  if (old.isEqualNode(now)) return;
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName || address(old) !== address(now)) {
    replace(old, now);
  } else if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = now.nodeValue;
  } else {
    for (const { name } of [...old.attributes]) if (!now.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    takeChildren(old, now);
  }
}

// A link or row with another meaning is another node: a click must not hit one that took its place.
function address(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("href") ?? node.dataset.key ?? node.id : "";
}

function takeChildren(old, now) {
  const keyed = new Map([...old.children].filter((each) => each.dataset.key).map((each) => [each.dataset.key, each]));
  if (keyed.size) {
    const wanted = new Set([...now.children].map((each) => each.dataset.key));
    for (const [key, each] of keyed) if (!wanted.has(key)) drop(each);
  }
  let place = old.firstChild;
  for (const each of [...now.childNodes]) {
    const mine = keyed.get(each.nodeType === Node.ELEMENT_NODE ? each.dataset.key : undefined);
    while (mine && place && place !== mine && !isKeyed(place)) place = dropped(place);
    if (mine && place !== mine) put(old, mine, place);
    const here = mine ?? (place && !isKeyed(place) ? place : null);
    if (here) {
      place = here.nextSibling;
      take(here, each);
    } else {
      old.insertBefore(each, place);
    }
  }
  while (place) place = dropped(place);
}

function isKeyed(node) {
  return node.nodeType === Node.ELEMENT_NODE && node.dataset.key !== undefined;
}

function dropped(node) {
  const next = node.nextSibling;
  drop(node);
  return next;
}

// A node that is moved loses the focus: restore it.
function put(parent, node, before) {
  const active = node.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(node, before);
  active?.focus({ preventScroll: true });
}

function replace(old, now) {
  old.before(now);
  drop(old);
}

// The focus moves from a removed node to the heading of its part, not to the top of the page.
function drop(node) {
  const heading = node.contains(document.activeElement) && node.parentElement?.closest("[data-live]")?.querySelector("h2[tabindex]");
  node.remove();
  if (heading) heading.focus({ preventScroll: true });
}

async function refresh() {
  const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
  if (!response.ok && response.status !== 404) throw new Error(String(response.status));
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const now of page.querySelectorAll("[data-live]")) {
    const old = document.getElementById(now.id);
    if (!old || (old.dataset.seldom !== undefined && !mayBeSaid(old, now))) continue;
    const log = old.querySelector("[data-follow]");
    const atEnd = log && log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    take(old, document.importNode(now, true));
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
}

function mayBeSaid(old, now) {
  if (old.textContent === now.textContent || Date.now() - lastSaid < SELDOM_MS) return false;
  lastSaid = Date.now();
  return true;
}

async function keepFresh(period) {
  let wait = period;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (paused || document.hidden) continue;
    try {
      await refresh();
      wait = period;
      show("gone", false);
    } catch {
      wait = Math.min(wait * 2, LATE_MS);
      show("gone", true);
    }
  }
}

function show(id, shown) {
  const element = document.getElementById(id);
  if (element.hidden === shown) element.hidden = !shown;
}

// A question is a page of its own. Show it in a dialog instead.
async function ask(address) {
  const response = await fetch(address, { redirect: "error" });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const question = page.getElementById("question");
  if (!response.ok || !question) throw new Error("no question");
  dialog.replaceChildren(document.importNode(question, true));
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (link.dataset.close !== undefined && dialog.contains(link)) {
    event.preventDefault();
    dialog.close();
  } else if (link.dataset.ask !== undefined) {
    event.preventDefault();
    ask(link.href).catch(() => location.assign(link.href));
  }
});

document.addEventListener("submit", (event) => {
  if (event.target.method === "post") {
    for (const button of event.target.querySelectorAll("button")) button.disabled = true; // once
  }
});

pause.hidden = main.dataset.refresh === undefined;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
});

const log = document.querySelector("[data-follow]");
if (log) log.scrollTop = log.scrollHeight;
const lanes = document.querySelector(".tl-scroll");
if (lanes) lanes.scrollLeft = lanes.scrollWidth; // the present is at the right
document.getElementById("notice")?.focus();
if (main.dataset.refresh) keepFresh(Number(main.dataset.refresh));
