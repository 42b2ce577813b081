/** The Jupyter server: where it is, how this page may speak to it, and the routes that the AI SDK does not know of. */

export type Connection = { server: string; token: string; notebook: string; model?: string };

const STORED = "jupyter";
/** The ids that a conversation may have. They stand in addresses, which nothing else gets into. */
const CHAT_ID = /^[A-Za-z0-9_-][A-Za-z0-9._:-]{0,127}$/;

/**
 * `start.py` prints an address that ends in `#server=...&token=...`. What stands behind `#` is never sent to a server;
 * this page keeps it for its tab, and takes it out of the address. A new address replaces all of the old one: a token
 * goes to the server that it came with, and to no other.
 */
export function findConnection(): Connection | undefined {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("token") && /^https?:/.test(given.get("server") ?? "")) {
    sessionStorage.setItem(STORED, JSON.stringify(Object.fromEntries(given)));
    history.replaceState(null, "", location.pathname + location.search);
  }
  return JSON.parse(sessionStorage.getItem(STORED) ?? "null") ?? undefined;
}

/** The conversation that this page shows. Its id stands in the address, so that a reload finds it again. */
export function findChat(): { chatId: string; isNew: boolean } {
  const found = new URLSearchParams(location.search).get("chat");
  if (found !== null && CHAT_ID.test(found)) return { chatId: found, isNew: false };
  const chatId = crypto.randomUUID();
  history.replaceState(null, "", `?chat=${chatId}`);
  return { chatId, isNew: true };
}

/** The token goes into a header: in an address, it would stand in logs. */
export function headers(connection: Connection): Record<string, string> {
  return { Authorization: `token ${connection.token}` };
}

export function address(connection: Connection, path: string): string {
  return `${connection.server.replace(/\/$/, "")}/agent-kernel/api/${path}`;
}

export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** Call a route of the server: a POST where there is a body. Returns the response's JSON. */
export async function call<T>(connection: Connection, path: string, body?: object): Promise<T> {
  const response = await fetch(address(connection, path), {
    method: body === undefined ? "GET" : "POST",
    headers: { ...headers(connection), ...(body && { "Content-Type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Refused(text, response.status);
  return JSON.parse(text) as T;
}

/** What went wrong, and what to do about it. */
export function explain(error: Error): string {
  if (error instanceof TypeError) {
    return (
      "The Jupyter server does not answer this page. Is it running? It must also allow pages from here: " +
      `c.ServerApp.allow_origin = "${location.origin}".`
    );
  }
  try {
    const message: unknown = JSON.parse(error.message).message;
    if (message === "Forbidden")
      return "The server does not know this page's token. Open the address that npm start printed last.";
    if (typeof message === "string") return message;
  } catch {
    // It is a text for people already.
  }
  return error.message;
}
