/**
 * The console: an application's newest messages, and one message's story. It asks the same API that
 * customers use and shows what that answers; everything is written as text, nothing as markup.
 */
const KEY = "waybill.key";
const STATUSES = [
  "accepted",
  "queued",
  "sent",
  "delivered",
  "undelivered",
  "failed",
  "refused",
  "expired",
  "canceled",
];
const FINAL = new Set(STATUSES.slice(3));
/** How often an unfinished story is asked for again. */
const REFRESH_MS = 2_000;

const byId = (id) => document.getElementById(id);
const page = {
  keyForm: byId("key-form"),
  keyField: byId("key-field"),
  key: byId("key"),
  open: byId("open"),
  forget: byId("forget"),
  back: byId("back"),
  notice: byId("notice"),
  list: byId("list"),
  table: byId("table"),
  rows: byId("rows"),
  empty: byId("empty"),
  more: byId("more"),
  filterForm: byId("filter-form"),
  status: byId("status"),
  number: byId("number"),
  reference: byId("reference"),
  story: byId("story"),
};

let cursor = null;
let refresh = 0;
/** The story on the screen, as it came. */
let drawn = "";
/** Raised by every change of view, so that an answer for the view before is dropped. */
let view = 0;

page.status.append(...STATUSES.map((name) => new Option(name, name)));
page.keyForm.addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, page.key.value.trim());
  page.key.value = "";
  show();
});
page.forget.addEventListener("click", () => {
  sessionStorage.removeItem(KEY);
  location.hash = "";
  show();
  page.key.focus();
});
page.filterForm.addEventListener("submit", (event) => {
  event.preventDefault();
  void showList();
});
page.more.addEventListener("click", () => void addRows(view));
addEventListener("hashchange", show);
show();

function show() {
  clearTimeout(refresh);
  view++;
  const known = sessionStorage.getItem(KEY) !== null;
  showKeyForm(known);
  page.list.hidden = true;
  page.story.hidden = true;
  page.back.hidden = !known || location.hash.length < 2;
  if (!known) return say("Paste an application's API key to see its messages. It stays in this tab only.");
  const id = location.hash.slice(1);
  void (id === "" ? showList() : showStory(id));
}

/** Either a key can be given, or the one that is there be forgotten. */
function showKeyForm(known) {
  page.keyField.hidden = known;
  page.open.hidden = known;
  page.forget.hidden = !known;
}

async function showList() {
  const mine = ++view;
  cursor = null;
  page.rows.replaceChildren();
  page.table.hidden = true;
  page.empty.hidden = true;
  page.more.hidden = true;
  await addRows(mine);
}

async function addRows(mine) {
  page.more.disabled = true;
  const query = new URLSearchParams({ limit: "50" });
  for (const [name, input] of [
    ["status", page.status],
    ["to", page.number],
    ["reference", page.reference],
  ]) {
    if (input.value.trim() !== "") query.set(name, input.value.trim());
  }
  if (cursor !== null) query.set("cursor", cursor);
  const answer = await ask(`/v1/messages?${query}`, mine);
  page.more.disabled = false;
  if (answer === undefined) return;
  page.list.hidden = false;
  page.rows.append(...answer.messages.map(row));
  page.table.hidden = page.rows.childElementCount === 0;
  page.empty.hidden = !page.table.hidden;
  cursor = answer.nextCursor;
  page.more.hidden = cursor === null;
}

const row = (message) =>
  element("tr", {}, [
    element("td", {}, [element("a", { href: `#${message.id}` }, [time(message.createdAt, true)])]),
    element("td", { class: "nowrap" }, [message.to]),
    element("td", {}, [statusOf(message)]),
    element("td", { class: "cut", lang: "zh", title: message.text }, [message.text]),
    element("td", { class: "cut" }, [message.reference ?? ""]),
    element("td", { class: "number" }, [String(message.segments)]),
  ]);

async function showStory(id) {
  const mine = view;
  const message = await ask(`/v1/messages/${encodeURIComponent(id)}`, mine);
  if (mine !== view) return;
  if (message !== undefined) draw(message);
  const over = message === undefined ? page.story.hidden : FINAL.has(message.status) && wasTold(message);
  if (!over) refresh = setTimeout(() => void showStory(id), REFRESH_MS);
}

/** Left alone while nothing has changed, so that focus and selection stay where they are. */
function draw(message) {
  const facts = JSON.stringify(message);
  if (page.story.hidden || facts !== drawn) page.story.replaceChildren(...story(message));
  drawn = facts;
  if (!page.story.hidden) return;
  page.story.hidden = false;
  page.story.focus();
}

const wasTold = (message) => message.notifications.every(({ status }) => status !== "pending");

function story(message) {
  return [
    element("h2", { id: "story-title" }, [`To ${message.to}: `, statusOf(message)]),
    ...state(message),
    element("p", { class: "text", lang: "zh" }, [message.text]),
    element("p", { class: "note" }, [
      [message.id, `${message.segments} × ${message.encoding}`, money(message.price), message.reference]
        .filter((part) => part !== null)
        .join(" · "),
    ]),
    element("h3", {}, ["Timeline"]),
    element(
      "ol",
      { class: "timeline" },
      message.timeline.map(({ at, what, why }) =>
        element("li", {}, [
          time(at, false),
          element("span", {}, [
            what,
            ...(why === undefined ? [] : [element("span", { class: "why" }, [` — ${why}`])]),
          ]),
        ]),
      ),
    ),
    element("h3", {}, ["Attempts"]),
    table(
      ["Attempt", "Channel", "Part", "Result", "Receipt"],
      message.attempts.flatMap((attempt) => attemptRows(attempt)),
      "No channel was chosen yet.",
    ),
    element("h3", {}, ["Money"]),
    table(
      ["When", "What", "Amount"],
      message.ledger.map((entry) => [time(entry.at, false), entry.kind, money(entry)]),
      "No money moved.",
    ),
    element("h3", {}, ["Webhooks"]),
    table(
      ["To", "Status", "When", "Answer"],
      message.notifications.flatMap(webhookRows),
      "Nothing was sent to a webhook.",
    ),
  ];
}

function state(message) {
  const lines = [];
  if (message.reason !== null) lines.push(`Reason: ${words(message.reason, null)}`);
  if (message.uncertain) lines.push("Uncertain: a part may or may not have reached the supplier.");
  if (message.needsReview !== undefined)
    lines.push(`A person must decide: ${words(message.needsReview.reason, null)}`);
  else if (message.waitingFor !== undefined) lines.push(`Waits for ${message.waitingFor.what}.`);
  return lines.map((line) => element("p", {}, [line]));
}

const attemptRows = (attempt) => {
  const channel = attempt.channel?.name ?? attempt.channel?.id ?? "none yet";
  if (attempt.segments.length === 0) return [[`${attempt.number}`, channel, "", attempt.reason ?? "", ""]];
  return attempt.segments.map((segment) => [
    `${attempt.number}`,
    channel,
    `${segment.part}`,
    segment.result === null ? "waiting" : words(segment.result, segment.resultCode || null),
    segment.receipt === null ? "none yet" : words(segment.receipt, segment.receiptStat),
  ]);
};

const webhookRows = (notification) =>
  notification.tries.length === 0
    ? [[notification.url, notification.status, "", "not tried yet"]]
    : notification.tries.map((each) => [
        notification.url,
        notification.status,
        time(each.at, false),
        each.error ?? `HTTP ${each.httpStatus}`,
      ]);

const words = (word, detail) => word.replaceAll("_", " ") + (detail === null ? "" : ` (${detail})`);

/** Units are 1/10000; they may come as digits in a string, so the point is put in as text. */
function money({ units, currency }) {
  const digits = String(units).replace("-", "").padStart(5, "0");
  return `${String(units).startsWith("-") ? "-" : ""}${digits.slice(0, -4)}.${digits.slice(-4)} ${currency}`;
}

function table(titles, rows, none) {
  if (rows.length === 0) return element("p", { class: "note" }, [none]);
  return element("div", { class: "scroll" }, [
    element("table", {}, [
      element("thead", {}, [
        element(
          "tr",
          {},
          titles.map((title) => element("th", { scope: "col" }, [title])),
        ),
      ]),
      element(
        "tbody",
        {},
        rows.map((cells) =>
          element(
            "tr",
            {},
            cells.map((cell) => element("td", {}, [cell])),
          ),
        ),
      ),
    ]),
  ]);
}

const statusOf = ({ status }) => element("span", { class: `status status-${status}` }, [status]);

function time(at, withDate) {
  const date = new Date(at);
  const clock = date.toLocaleTimeString(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    ...(withDate ? {} : { fractionalSecondDigits: 3 }),
  });
  const shown = withDate ? `${date.toLocaleDateString()} ${clock}` : clock;
  return element("time", { datetime: at, title: at }, [shown]);
}

function element(name, attributes, children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

/** Undefined where there is nothing to show: the notice says why, or another view has begun. */
async function ask(path, mine) {
  if (page.list.hidden && page.story.hidden) say("Loading …");
  try {
    const response = await fetch(path, {
      headers: { authorization: `Bearer ${sessionStorage.getItem(KEY)}` },
    });
    const body = await response.json();
    if (mine !== view) return undefined;
    if (response.ok) {
      say("");
      return body;
    }
    if (response.status === 401) forgetKey();
    say(refusal(body), true);
  } catch {
    if (mine === view) say("Waybill does not answer. Is it running?", true);
  }
  return undefined;
}

/** The only address asked here that may have nothing is a message's. */
function refusal({ code, title, errors = [] }) {
  if (code === "not_found") return "There is no such message.";
  const fields = errors.map((error) => `${error.path} ${error.message}`).join("; ");
  return fields === "" ? title : `${title}: ${fields}`;
}

/** A key that is not known is of no use: another can be given at once. */
function forgetKey() {
  sessionStorage.removeItem(KEY);
  showKeyForm(false);
  page.list.hidden = true;
  page.story.hidden = true;
  page.back.hidden = true;
  page.key.focus();
}

function say(what, isError = false) {
  page.notice.textContent = what;
  page.notice.hidden = what === "";
  page.notice.classList.toggle("error", isError);
}
