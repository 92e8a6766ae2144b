// Pages of another site that try whatever a browser lets them try, each time with a request that would start a run.

/** What a page can make a browser send by GET to a `url`. */
export const gets = {
  "link prefetch": (url) => put("link", { rel: "prefetch", href: url }),
  "link preload of data": (url) => put("link", { rel: "preload", as: "fetch", href: url }),
  "link preload of a script": (url) => put("link", { rel: "preload", as: "script", href: url }),
  "link modulepreload": (url) => put("link", { rel: "modulepreload", href: url }),
  "link stylesheet": (url) => put("link", { rel: "stylesheet", href: url }),
  "link icon": (url) => put("link", { rel: "icon", href: url }),
  "img": (url) => put("img", { src: url }),
  "img without a referrer": (url) => put("img", { referrerPolicy: "no-referrer", src: url }),
  "img behind a redirect": (url, { elsewhere }) => elsewhere && put("img", { src: elsewhere + "/to?" + encodeURIComponent(url) }),
  "script": (url) => put("script", { src: url }),
  "script without a referrer": (url) => put("script", { referrerPolicy: "no-referrer", src: url }),
  "script module": (url) => put("script", { type: "module", src: url }),
  "import": (url) => import(url),
  "iframe": (url) => put("iframe", { src: url }),
  "iframe in a sandbox": (url) => put("iframe", { sandbox: "allow-scripts", src: url }),
  "frame of its own": (url) => put("iframe", { srcdoc: `<img src="${url.replaceAll("&", "&amp;")}">` }),
  "object": (url) => put("object", { data: url }),
  "embed": (url) => put("embed", { src: url }),
  "video": (url) => put("video", { src: url }),
  "audio": (url) => put("audio", { src: url }),
  "style": (url) => put("style", { textContent: `body { background: url("${url}") }` }),
  "style import": (url) => put("style", { textContent: `@import "${url}";` }),
  "svg image": (url) => (document.body.append(document.createElement("div")), (document.body.lastChild.innerHTML = `<svg><image href="${url.replaceAll("&", "&amp;")}"/></svg>`)),
  "input image": (url) => put("input", { type: "image", src: url }),
  "meta refresh": (url) => put("iframe", { srcdoc: `<meta http-equiv="refresh" content="0; url=${url.replaceAll("&", "&amp;")}">` }),
  "fetch": (url) => fetch(url),
  "fetch no-cors": (url) => fetch(url, { mode: "no-cors" }),
  "fetch as EventSource": (url) => fetch(url, { mode: "no-cors", headers: { Accept: "text/event-stream" }, cache: "no-store" }),
  "fetch as EventSource without a referrer": (url) => fetch(url, { mode: "no-cors", headers: { Accept: "text/event-stream" }, cache: "no-store", referrerPolicy: "no-referrer" }),
  "fetch as curl": (url) => fetch(url, { mode: "no-cors", headers: { Accept: "*/*", "Accept-Language": "*" }, credentials: "include", referrerPolicy: "no-referrer" }),
  "fetch same-origin": (url) => fetch(url, { mode: "same-origin" }),
  "fetch navigate": (url) => fetch(url, { mode: "navigate" }),
  "XMLHttpRequest": (url) => { const x = new XMLHttpRequest(); x.open("GET", url); x.send(); },
  "EventSource": (url) => new EventSource(url),
  "EventSource with credentials": (url) => new EventSource(url, { withCredentials: true }),
  "WebSocket": (url) => new WebSocket(url.replace("http", "ws")),
  "worker": (url) => new Worker(url),
  "worker that fetches": (url) => worker(`fetch(${JSON.stringify(url)}, { mode: "no-cors", headers: { Accept: "text/event-stream" } })`),
  "worker that imports": (url) => worker(`importScripts(${JSON.stringify(url)})`),
  "service worker": (url) => navigator.serviceWorker?.register("/worker.js?" + encodeURIComponent(url)),
};

/** What it can make a browser send by POST with a body that needs no permission. */
export const posts = {
  "fetch POST": (url, { body }) => fetch(url, { method: "POST", mode: "no-cors", headers: { "Content-Type": "text/plain" }, body }),
  "fetch POST urlencoded": (url, { body }) => fetch(url, { method: "POST", mode: "no-cors", headers: { "Content-Type": "application/x-www-form-urlencoded" }, body }),
  "fetch POST multipart": (url, { body }) => fetch(url, { method: "POST", mode: "no-cors", headers: { "Content-Type": "multipart/form-data" }, body }),
  "fetch POST of no type": (url, { body }) => fetch(url, { method: "POST", mode: "no-cors", body: new Blob([body]) }),
  "fetch POST without a referrer": (url, { body }) => fetch(url, { method: "POST", mode: "no-cors", referrerPolicy: "no-referrer", body: new Blob([body]) }),
  "fetch POST cors": (url, { body }) => fetch(url, { method: "POST", body: new Blob([body]) }),
  "fetch POST of JSON": (url, { body }) => fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body }),
  "fetch POST that stays": (url, { body }) => fetch(url, { method: "POST", mode: "no-cors", keepalive: true, body: new Blob([body]) }),
  "sendBeacon": (url, { body }) => navigator.sendBeacon(url, new Blob([body])),
  "ping": (url) => put("a", { href: "#x", ping: url }).click(),
};

/** What opens a window, or goes to another page, by GET and by POST. It comes last: a page behind another window does less. */
export const windows = {
  "form": (url) => form(url, "get"),
  "link in a new window": (url) => put("a", { href: url, target: "_blank", rel: "noopener noreferrer" }).click(),
  "window.open": (url) => window.open(url),
  "window.open without an opener": (url) => window.open(url, "_blank", "noopener,noreferrer"),
  "form POST": (url, { body }) => form(url, "post", "text/plain", body),
  "form POST urlencoded": (url, { body }) => form(url, "post", "application/x-www-form-urlencoded", body),
  "form POST multipart": (url, { body }) => form(url, "post", "multipart/form-data", body),
  "form POST behind a redirect": (url, { body, elsewhere }) => elsewhere && form(elsewhere + "/to?" + encodeURIComponent(url), "post", "text/plain", body),
};

/** What makes the page itself go to the address, which ends all else that it tries: a download from another site is no download. */
export const leaving = {
  "download": (url) => put("a", { href: url, download: "x" }).click(),
};

// These run in the page.
function put(name, members) {
  return document.body.appendChild(Object.assign(document.createElement(name), members));
}
function worker(text) {
  new Worker(URL.createObjectURL(new Blob([text])));
}
function form(url, method, enctype = "application/x-www-form-urlencoded", body) {
  const f = put("form", { method, enctype, target: "_blank", action: method === "get" ? url.replace(/\?.*/, "") : url });
  // A body of text/plain is NAME=VALUE, so that JSON fits into it.
  const fields = body === undefined ? [...new URL(url).searchParams] : [[body.slice(0, -1) + ',"params":{"x":"', '"}}']];
  for (const [name, value] of fields) f.append(Object.assign(document.createElement("input"), { name, value }));
  f.submit();
}

/** A page that tries all of `tries`, each at the address, and with the body, that `of` gives for its name. `elsewhere` is a server that redirects. */
export function hostile(tries, of, elsewhere = "") {
  const calls = Object.entries(tries).map(([name, attempt]) => {
    const { url, body } = of(name);
    return `attempt(${attempt}, ${JSON.stringify(url)}, ${JSON.stringify({ body, elsewhere })});`;
  });
  const script = `${put} ${worker} ${form}
function attempt(f, url, more) {
  try {
    Promise.resolve(f(url, more)).catch(() => {});
  } catch {}
}
${calls.join("\n")}`;
  return `<!doctype html><meta charset="utf-8"><title>hostile</title><body><script>${script.replaceAll("</", "<\\/")}</script>`;
}

/** A page whose speculation rules make the browser fetch an address before anybody goes there: `kind` is prefetch or prerender. */
export function speculating(kind, url) {
  const rules = { [kind]: [{ source: "list", urls: [url] }] };
  return `<!doctype html><meta charset="utf-8"><title>hostile</title><body><script type="speculationrules">${JSON.stringify(rules)}</script>`;
}
