// What components ask the server for, as long as they are shown.

import { type Dispatch, type StateUpdater, useEffect, useRef, useState } from "preact/hooks";

import { type Study, type StudyAsk, type Trace, Refusal, ask, pause, poll, wordsOf } from "./api";

/** A change starts a study after this time, so that a slider that moves starts one. */
const SETTLED_MS = 350;
/** Former results stay for this long, if the next ones are fewer till then. */
const FORMER_MS = 1500;
/** Without a trace to watch, the server is asked this often whether it is there. */
const WATCH_MS = 10_000;

/** Watches a trace, and so the server; without one, the server alone. */
export function useWatch(id: number | undefined, take: (trace: Trace) => void, lose: (id: number) => void): void {
  const latest = useRef({ take, lose });
  latest.current = { take, lose };
  useEffect(() => {
    const abort = new AbortController();
    const watch = async (): Promise<void> => {
      if (id !== undefined) {
        await poll<Trace>(`traces/${id}`, abort.signal, (trace) => {
          latest.current.take(trace);
          return true;
        });
      }
      for (;;) {
        await pause(WATCH_MS, abort.signal);
        await ask("GET", "catalogue", undefined, abort.signal, WATCH_MS);
      }
    };
    watch().catch((error: unknown) => {
      if (error instanceof Refusal && id !== undefined) {
        latest.current.lose(id);
      }
    });
    return () => abort.abort();
  }, [id]);
}

/** Something that is asked for once for each address; undefined until it is there. */
export function useAnswer<Answer>(path: string | undefined): { answer?: Answer; error?: string } {
  const [found, setFound] = useState<{ path?: string; answer?: Answer; error?: string }>({});
  useEffect(() => {
    if (path === undefined) {
      return undefined;
    }
    const abort = new AbortController();
    ask<Answer>("GET", path, undefined, abort.signal).then(
      (answer) => setFound({ path, answer }),
      (error) => abort.signal.aborted || setFound({ path, error: wordsOf(error) ?? "" }),
    );
    return () => abort.abort();
  }, [path]);
  return found.path === path ? found : {};
}

/** A study that goes on as the reader's choices change. */
export interface Running {
  /** The last version that came, of this study or of the former. */
  study: Study | undefined;
  /** Whether that is of the former. */
  isOld: boolean;
  error: string | undefined;
  isRunning: boolean;
  stop(): void;
  restart(): void;
}

export function useStudy(question: StudyAsk | undefined): Running {
  const [study, setStudy] = useState<Study>();
  const [error, setError] = useState<string>();
  const [isOld, setOld] = useState(false);
  const [isRunning, setRunning] = useState(false);
  const [tries, setTries] = useState(0);
  const [stopped, setStopped] = useState("");
  const started = useRef<number | undefined>(undefined);
  const isFormer = useRef(false);
  const key = question && JSON.stringify(question);
  const run = `${tries} ${key}`;
  const isStopped = stopped === run;

  useEffect(() => {
    if (!question || isStopped) {
      setRunning(false);
      return undefined;
    }
    const abort = new AbortController();
    setRunning(true);
    setOld(true);
    const follow = async (): Promise<void> => {
      if (started.current !== undefined) {
        await pause(SETTLED_MS, abort.signal);
      }
      setError(undefined);
      const { id } = await ask<{ id: number }>("POST", "studies", question, abort.signal);
      started.current = id;
      const begun = Date.now();
      await poll<Study>(`studies/${id}`, abort.signal, (next) => {
        // The former results stay until there is about as much to show.
        const isEnough = next.sampled >= next.points || Date.now() > begun + FORMER_MS;
        const isOver = next.state !== "sampling" && next.state !== "exact";
        if (isOver || (next.html !== "" && (isEnough || !isFormer.current))) {
          isFormer.current = true;
          setStudy(next);
          setOld(false);
        }
        setError(next.error ?? undefined);
        return next.state === "sampling" || next.state === "exact";
      });
    };
    follow()
      .catch((error: unknown) => abort.signal.aborted || setError(wordsOf(error)))
      .finally(() => abort.signal.aborted || setRunning(false));
    return () => abort.abort();
  }, [run, isStopped]);

  // What was found on another trace says nothing of this one.
  const trace = question?.trace;
  useEffect(() => {
    isFormer.current = false;
    setStudy(undefined);
    setError(undefined);
  }, [trace]);

  return {
    study,
    isOld,
    error,
    isRunning,
    stop: () => {
      if (started.current !== undefined) {
        ask("DELETE", `studies/${started.current}`, undefined, new AbortController().signal).catch(() => undefined);
      }
      setStopped(run);
      setStudy((now) => now && { ...now, state: now.state === "done" ? "done" : "stopped" });
    },
    restart: () => {
      setStopped("");
      setTries(tries + 1);
    },
  };
}

/** A list of traces in which one is changed or added. */
export function changed(set: Dispatch<StateUpdater<Trace[]>>, trace: Trace): void {
  set((traces) =>
    traces.some(({ id }) => id === trace.id)
      ? traces.map((one) => (one.id === trace.id ? trace : one))
      : [...traces, trace],
  );
}
