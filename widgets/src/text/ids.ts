/** An id that no other page has. */
export function randomId(): string {
  // Not `randomUUID`, which a page that came over plain HTTP does not have.
  return `ak-${[...crypto.getRandomValues(new Uint32Array(2))].map((part) => part.toString(36)).join("-")}`;
}
