// The server's API: calls, streams, and what is said when they fail.
import { say } from "./strings.js";

let key = ""; // in memory alone, and gone with the page

export class Refusal extends Error {
  constructor(status, message, code = "") {
    super(message);
    Object.assign(this, { status, code });
  }
}

export function setKey(given) {
  key = given;
}

export const hasKey = () => key !== "";

export function addressOf(path) {
  return new URL(path, document.baseURI).href;
}

async function send(path, body, signal) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const options = { signal, headers, cache: "no-store", credentials: "omit" };
  if (body !== undefined) {
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(addressOf(path), options);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal(0, say("unreachable"));
  }
  if (answer.ok) return answer;
  if (answer.status === 401) {
    document.dispatchEvent(new CustomEvent("keyless"));
    throw new Refusal(401, say(key ? "wrongKey" : "keyWanted"));
  }
  if (answer.status === 429) throw new Refusal(429, say("busy"));
  const { message, code } = await errorOf(answer);
  throw new Refusal(answer.status, message, code);
}

// What the server says of an error, in whichever of its forms.
async function errorOf(answer) {
  try {
    const { error } = await answer.json();
    return { message: String(error.message), code: error.code };
  } catch {
    return { message: say("failed", { status: answer.status }), code: "" };
  }
}

export async function ask(path, body, signal) {
  return (await send(path, body, signal)).json();
}

// Why directories are not served, by name; where a key is asked for, nobody is told.
export async function problems() {
  try {
    const { problems: found } = await (await fetch(addressOf("ready"), { cache: "no-store" })).json();
    return typeof found === "object" ? found : {};
  } catch {
    return {};
  }
}

// The events of a stream, each an object, until the server says that it is done.
export async function* stream(path, body, signal) {
  const reader = (await send(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (held + value).split("\n");
      held = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;
        const said = line.slice(5).trim();
        if (said === "[DONE]") return;
        const event = JSON.parse(said);
        if (event.error) throw new Refusal(500, String(event.error.message), event.error.code);
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
