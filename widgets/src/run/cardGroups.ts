/** Neighbouring items in groups: a browser looks at each group in every frame, and leaves out those that are off screen,
 * where it had looked at each of hundreds of cards. */
import type { Item } from "../state";

/** Items of a group; as lines they fill most of a screen. */
const SIZE = 25;

export interface Group {
  readonly number: number;
  readonly items: readonly Item[];
}

export class Groups {
  private readonly numbers = new Map<string, number>();
  private newest = 0;

  /** Items stay in the group that they came into, whatever comes or goes before them: a card that moved to another one
   * would be made again, without what the person has opened or written in it. */
  of(items: readonly Item[]): readonly Group[] {
    const groups: { number: number; items: Item[] }[] = [{ number: 0, items: [] }];
    for (const item of items) {
      const last = groups.at(-1)!;
      const number = this.numberOf(item, last);
      if (number > last.number) groups.push({ number, items: [item] });
      else last.items.push(item);
    }
    return groups.filter((group) => group.items.length > 0);
  }

  private numberOf({ kind, id }: Item, last: Group): number {
    const key = `${kind} ${id}`;
    const isFull = last.number === this.newest && last.items.length >= SIZE;
    const number = this.numbers.get(key) ?? (isFull ? last.number + 1 : last.number);
    this.numbers.set(key, number);
    this.newest = Math.max(this.newest, number);
    return number;
  }
}
