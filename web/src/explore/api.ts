// What the server answers, and how it is asked: again after a while when no answer comes.

/** How long to wait before another try, in milliseconds; the last again and again. */
const WAITS_MS = [400, 800, 1600, 3000, 5000];
/** After so many tries without an answer the server counts as gone. */
const GONE_AFTER = 4;
/** A poll is answered within 10 s; without an answer for this long, it is asked again. */
const POLL_MS = 45_000;

export interface Policy {
  name: string;
  about: string;
  tiers: number;
  group: string;
}

export type Device = string | { name: string; about?: string };

export interface Prices {
  ram: number;
  flash: number;
  disk: number;
}

export interface Catalogue {
  version: string;
  policies: Policy[];
  defaults: {
    policies: string[];
    ram: string[];
    flash: string[];
    prices_per_gib?: Prices;
    endurance_cycles?: number;
  };
  devices: Record<"ram" | "flash" | "disk", Device[]>;
  traces: Trace[];
  drop_limit_bytes?: number;
}

export interface Trace {
  id: number;
  name: string;
  version: number;
  state: "reading" | "ready" | "failed";
  read_bytes: number;
  total_bytes: number | null;
  accesses: number;
  error?: string | null;
  footprint_pages?: number | null;
  page_size_bytes?: number | null;
  reads?: number | null;
  writes?: number | null;
}

export interface StudyAsk {
  trace: number;
  policies: string[];
  ram: string[];
  flash: string[];
  devices?: { flash?: string; disk?: string };
  prices_per_gib?: Prices;
  endurance_cycles?: number;
}

/** A configuration. */
export interface Place {
  policy: string;
  ram_pages: number;
  flash_pages: number;
}

export interface Row extends Place {
  ram_bytes: number;
  flash_bytes: number;
  is_exact: boolean;
  hit_ratio: number;
  io_time_ms: number;
  flash_bytes_written: number;
  life_years: number | null;
  cost: number | null;
}

export interface Study {
  id: number;
  version: number;
  state: "sampling" | "exact" | "done" | "failed" | "stopped";
  points: number;
  sampled: number;
  exact: number;
  error?: string | null;
  sampling_error_points: { max: number; mean: number; points?: number } | null;
  html: string;
  rows: Row[];
}

export interface Command {
  title: string;
  text: string;
}

export interface PointDetails {
  title: string;
  html: string;
  commands: Command[];
}

/** Whether the server answers: it does, it did not just now, or it has not for a while. */
export type Connection = "here" | "lost" | "gone";

/** The server says that it cannot do this, and why. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

let connection: Connection = "here";
const listeners = new Set<(connection: Connection) => void>();

/** Calls when the connection is lost or found again. */
export function onConnection(listener: (connection: Connection) => void): () => void {
  listeners.add(listener);
  listener(connection);
  return () => listeners.delete(listener);
}

function setConnection(next: Connection): void {
  if (next !== connection) {
    connection = next;
    listeners.forEach((listener) => listener(next));
  }
}

/** Asks once. Fails with a `Refusal` if the server refuses, else if no answer comes. */
export async function askOnce(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Response> {
  const init: RequestInit = { method, signal: signal ?? null };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  const response = await fetch(`api/${path}`, init);
  if (!response.ok) {
    throw await refusal(response.status, await response.text());
  }
  return response;
}

/** What a server's error says. */
export function refusal(status: number, text: string): Refusal {
  try {
    return new Refusal(status, JSON.parse(text).error);
  } catch {
    return new Refusal(status, `The server answers with the status ${status}.`);
  }
}

/** Asks until an answer comes. */
export async function ask<Answer>(
  method: string,
  path: string,
  body: unknown,
  signal: AbortSignal,
  limit_ms?: number,
): Promise<Answer> {
  for (let tries = 0; ; tries += 1) {
    try {
      const limit = limit_ms === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(limit_ms)]);
      const response = await askOnce(method, path, body, limit);
      const answer = response.status === 204 ? undefined : await response.json();
      setConnection("here");
      return answer as Answer;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof Refusal) {
        setConnection("here");
        throw error;
      }
      setConnection(tries + 1 < GONE_AFTER ? (connection === "gone" ? "gone" : "lost") : "gone");
    }
    await pause(WAITS_MS[Math.min(tries, WAITS_MS.length - 1)] ?? 0, signal);
  }
}

/** Takes every version of something until there is no need of more, one request at a time. */
export async function poll<Answer extends { version: number }>(
  path: string,
  signal: AbortSignal,
  take: (answer: Answer) => boolean,
): Promise<void> {
  let after = "";
  for (;;) {
    const answer = await ask<Answer>("GET", `${path}${after}`, undefined, signal, POLL_MS);
    signal.throwIfAborted();
    if (!take(answer)) {
      return;
    }
    after = `?after=${answer.version}`;
  }
}

/** Waits, unless it is ended. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      fail(signal.reason);
    });
  });
}

/** Sends a file, and tells how much of it is sent. */
export function send(
  file: File,
  signal: AbortSignal,
  tell: (sent_bytes: number) => void,
): Promise<Trace> {
  // `fetch` does not tell how much is sent.
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `api/traces?name=${encodeURIComponent(file.name)}`);
    request.upload.addEventListener("progress", (event) => tell(event.loaded));
    request.addEventListener("load", () => {
      if (request.status < 300) {
        done(JSON.parse(request.responseText) as Trace);
      } else {
        fail(refusal(request.status, request.responseText));
      }
    });
    request.addEventListener("error", () => {
      fail(new Error(`${file.name} was not sent: the connection was lost. Choose the file again.`));
    });
    signal.addEventListener("abort", () => {
      request.abort();
      fail(signal.reason);
    });
    request.send(file);
  });
}

/** What an error says; none if nobody needs to know. */
export function wordsOf(error: unknown): string | undefined {
  if (error instanceof DOMException && error.name === "AbortError") {
    return undefined;
  }
  return error instanceof Error ? error.message : String(error);
}
