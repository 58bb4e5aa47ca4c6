// What the page says when the server does not answer, and how it tells of progress.

import { useEffect, useRef, useState } from "preact/hooks";

import { type Connection, onConnection } from "./api";

/** Screen readers are told of progress at most this often. */
const TOLD_MS = 4000;

export function Banner() {
  const [connection, setConnection] = useState<Connection>("here");
  useEffect(() => onConnection(setConnection), []);
  return (
    <div role="alert" class="banner-place">
      {connection === "lost" && <p class="banner">The connection to thermocline is lost. Trying again...</p>}
      {connection === "gone" && (
        <p class="banner">
          The server does not answer: thermocline may have ended. Start it again with{" "}
          <code>thermocline explore</code> and open the address that it prints. This page tries on.
        </p>
      )}
    </div>
  );
}

/** Says a text to screen readers when it changes, but not too often. */
export function Told({ text }: { text: string }) {
  const [told, setTold] = useState(text);
  const last = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, last.current + TOLD_MS - Date.now());
    const timer = setTimeout(() => {
      last.current = Date.now();
      setTold(text);
    }, wait);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <p class="unseen" role="status">
      {told}
    </p>
  );
}
