// Choosing a trace, and watching it being read.

import { useEffect, useRef, useState } from "preact/hooks";

import { type Trace, ask, send, wordsOf } from "./api";
import type { Origin } from "./choices";
import { bytes, grouped } from "./numbers";

/** A file that is being sent. */
interface Sending {
  name: string;
  sent_bytes: number;
  total_bytes: number;
  abort: AbortController;
}

export function Traces(props: {
  traces: Trace[];
  active: Trace | undefined;
  dropLimit: number | undefined;
  take(trace: Trace, origin: Origin): void;
  choose(trace: Trace): void;
  forget(trace: Trace): void;
}) {
  const { traces, active, dropLimit, take, choose, forget } = props;
  const [sending, setSending] = useState<Sending>();
  const [error, setError] = useState<string>();
  const [isOver, setOver] = useState(false);
  const [path, setPath] = useState("");
  const isOpening = useRef(false);

  const open = async (origin: Exclude<Origin, undefined>): Promise<void> => {
    // One at a time: more clicks are no more traces.
    if (isOpening.current) {
      return;
    }
    isOpening.current = true;
    setError(undefined);
    try {
      take(await ask<Trace>("POST", "traces", origin, new AbortController().signal), origin);
    } catch (error) {
      setError(wordsOf(error));
    } finally {
      isOpening.current = false;
    }
  };
  const upload = async (file: File | undefined): Promise<void> => {
    if (!file) {
      return;
    }
    if (dropLimit !== undefined && file.size > dropLimit) {
      setError(
        `${file.name} has ${bytes(file.size)}, more than the ${bytes(dropLimit)} that are taken: type its path instead.`,
      );
      return;
    }
    sending?.abort.abort();
    const abort = new AbortController();
    const state = { name: file.name, sent_bytes: 0, total_bytes: file.size, abort };
    setError(undefined);
    setSending(state);
    try {
      const trace = await send(file, abort.signal, (sent_bytes) => setSending({ ...state, sent_bytes }));
      take(trace, undefined);
    } catch (error) {
      setError(wordsOf(error));
    } finally {
      setSending((now) => (now?.abort === abort ? undefined : now));
    }
  };
  const latest = useRef(upload);
  latest.current = upload;
  useEffect(() => {
    const drag = (event: DragEvent): void => {
      // A file may be dropped anywhere, and never replaces the page.
      event.preventDefault();
      setOver(event.type === "dragover");
      if (event.type === "drop") {
        void latest.current(event.dataTransfer?.files[0]);
      }
    };
    const names = ["dragover", "dragleave", "drop"] as const;
    names.forEach((name) => addEventListener(name, drag));
    return () => names.forEach((name) => removeEventListener(name, drag));
  }, []);
  return (
    <section class="traces" aria-labelledby="traces-title">
      <h2 id="traces-title">Trace</h2>
      {traces.length > 0 && (
        <ul class="known">
          {traces.map((trace) => (
            <li key={trace.id}>
              <label>
                <input
                  type="radio"
                  name="trace"
                  checked={trace.id === active?.id}
                  onChange={() => choose(trace)}
                />{" "}
                <b>{trace.name}</b> {about(trace)}
              </label>{" "}
              <button type="button" aria-label={`Remove ${trace.name}`} onClick={() => forget(trace)}>
                Remove
              </button>
            </li>
          ))}
        </ul>
      )}
      {active?.state === "reading" && <Reading trace={active} />}
      {active?.state === "failed" && (
        <p class="problem" role="alert">
          {active.error ?? "The trace cannot be read."}
        </p>
      )}
      <details class="chooser" open={active === undefined || active.state === "failed"}>
        <summary>{active ? "Another trace" : "Choose a trace"}</summary>
        <button type="button" onClick={() => void open({ bundled: true })}>
          Use the bundled trace
        </button>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void open({ path });
          }}
        >
          <label>
            Path of a trace on this computer{" "}
            <input
              type="text"
              required
              autocomplete="off"
              spellcheck={false}
              value={path}
              onInput={(event) => setPath(event.currentTarget.value)}
            />
          </label>{" "}
          <button type="submit">Open</button>
        </form>
        <label class="file">
          Or drop a file on this page, or choose one{" "}
          <input
            type="file"
            onChange={(event) => {
              void upload(event.currentTarget.files?.[0]);
              event.currentTarget.value = "";
            }}
          />
        </label>
      </details>
      {isOver && <p class="over">Drop the file to read it.</p>}
      {sending && (
        <p class="progress">
          <label>
            Sending {sending.name}: {bytes(sending.sent_bytes)} of {bytes(sending.total_bytes)}{" "}
            <progress value={sending.sent_bytes} max={Math.max(1, sending.total_bytes)} />
          </label>{" "}
          <button type="button" onClick={() => sending.abort.abort()}>
            Stop sending
          </button>
        </p>
      )}
      {error !== undefined && (
        <p class="problem" role="alert">
          {error}
        </p>
      )}
    </section>
  );
}

function about(trace: Trace): string {
  const { state, accesses, footprint_pages, page_size_bytes } = trace;
  if (state === "failed") {
    return "cannot be read";
  }
  if (state === "reading") {
    return "is being read";
  }
  const footprint = footprint_pages && page_size_bytes ? `, ${bytes(footprint_pages * page_size_bytes)} of pages` : "";
  return `${grouped(accesses)} accesses${footprint}`;
}

function Reading({ trace }: { trace: Trace }) {
  const total = trace.total_bytes ?? 0;
  const read = total > 0 ? `${bytes(trace.read_bytes)} of ${bytes(total)}` : bytes(trace.read_bytes);
  return (
    <p class="progress">
      <label>
        Reading: {read}, {grouped(trace.accesses)} accesses so far{" "}
        {total > 0 ? <progress value={trace.read_bytes} max={total} /> : <progress />}
      </label>
    </p>
  );
}
