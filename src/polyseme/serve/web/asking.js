// One question at a time: a line says how it stands, a newer question ends the older, and leaving the view ends all.
import { make } from "./dom.js";
import { Refusal } from "./api.js";
import { say } from "./strings.js";

export function asking(context, results) {
  const line = make("p", { className: "status", role: "status" });
  let now = null;

  // `work` is given a signal, and gives what to say at the end.
  async function ask(work) {
    now?.abort();
    const mine = new AbortController();
    now = mine;
    context.signal.addEventListener("abort", () => mine.abort(), { once: true });
    line.className = "status working";
    line.textContent = say("working");
    results?.setAttribute("aria-busy", "true");
    try {
      const said = await work(mine.signal);
      // Whoever sees the answer need not be told that it is there.
      if (now === mine) settle(said ? "" : "unseen", said || say("done"));
    } catch (error) {
      if (now !== mine) return;
      if (mine.signal.aborted) settle("", say("stopped"));
      else if (error instanceof Refusal) settle("wrong", error.message);
      else {
        settle("wrong", say("broken"));
        throw error;
      }
    }
  }

  function settle(kind, said) {
    now = null;
    line.className = `status ${kind}`;
    line.textContent = said;
    results?.setAttribute("aria-busy", "false");
  }

  return { line, ask, stop: () => now?.abort() };
}
