// One request at a time: a line shows its status, a new request aborts the previous one, and leaving the view aborts all.
// After an error, `results` are hidden, because they belong to an earlier request; unless they are filled `gradually`.
import { make } from "./dom.js";
import { ApiError } from "./api.js";
import { t } from "./strings.js";

export function requestRunner(context, results, { gradually = false } = {}) {
  const status = make("p", { className: "status", role: "status" });
  let current = null;

  // `work` receives an AbortSignal and returns the final status, if any.
  async function run(work) {
    current?.abort();
    const mine = new AbortController();
    current = mine;
    context.signal.addEventListener("abort", () => mine.abort(), { once: true });
    status.className = "status working";
    status.textContent = t("working");
    results?.setAttribute("aria-busy", "true");
    try {
      const message = await work(mine.signal);
      if (current !== mine) return;
      if (results) results.hidden = false;
      finish(message ? "" : "screen-reader", message || t("done"));
    } catch (error) {
      if (current !== mine) return;
      if (mine.signal.aborted) finish("", t("stopped"));
      else {
        if (results && !gradually) results.hidden = true;
        finish("wrong", error instanceof ApiError ? error.message : t("broken"));
        if (!(error instanceof ApiError)) throw error;
      }
    }
  }

  function finish(kind, message) {
    current = null;
    status.className = `status ${kind}`;
    status.textContent = message;
    results?.setAttribute("aria-busy", "false");
  }

  return { status, run, stop: () => current?.abort() };
}
