// Client of the server's API: JSON requests, streams, and their errors.
import { t } from "./strings.js";

let key = ""; // in memory only

export class ApiError extends Error {
  constructor(status, message, code = "", param = "") {
    super(message);
    Object.assign(this, { status, code, param });
  }
}

export function setKey(value) {
  key = value;
}

export const hasKey = () => key !== "";

export function urlOf(path) {
  return new URL(path, document.baseURI).href;
}

async function send(path, body, signal) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const options = { signal, headers, cache: "no-store", credentials: "omit" };
  if (body !== undefined) {
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(urlOf(path), options);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, t("unreachable"));
  }
  if (response.ok) return response;
  if (response.status === 401) {
    document.dispatchEvent(new CustomEvent("unauthorized"));
    throw new ApiError(401, t(key ? "wrongKey" : "keyRequired"));
  }
  if (response.status === 429) throw new ApiError(429, t("busy"));
  const { message, code, param } = await readError(response);
  throw new ApiError(response.status, message, code, param);
}

async function readError(response) {
  try {
    const { error } = await response.json();
    return { message: String(error.message), code: error.code, param: error.param };
  } catch {
    return { message: t("failed", { status: response.status }), code: "" };
  }
}

// GET without a body, POST with one.
export async function fetchJson(path, body, signal) {
  return (await send(path, body, signal)).json();
}

// Why directories are not loaded, by name; servers with a key do not list them.
export async function fetchProblems() {
  try {
    const { problems } = await (await fetch(urlOf("ready"), { cache: "no-store" })).json();
    return typeof problems === "object" ? problems : {};
  } catch {
    return {};
  }
}

// The server-sent events of a response, each an object.
export async function* streamEvents(path, body, signal) {
  const reader = (await send(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (buffer + value).split("\n");
      buffer = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        const event = JSON.parse(data);
        if (event.error) throw new ApiError(500, String(event.error.message), event.error.code);
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
