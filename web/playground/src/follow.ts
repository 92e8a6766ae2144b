// Follows what grows, until the reader scrolls away from it.

/** The element that scrolls what is in main: main itself, or the page where there is little room. */
export function scrollerOf(inside: Element): HTMLElement {
  const main = inside.closest("main")!;
  return getComputedStyle(main).overflowY === "visible" ? (document.scrollingElement as HTMLElement) : main;
}

/**
 * Tells the reader's scrolling from what growing text does. Text that grows moves nothing up, so only a reader scrolls up; where
 * something above is taken away, the whole becomes shorter at the same time.
 */
export class Follower {
  following = true;
  #top = 0;
  #height = 0;

  /** To be called for each scroll event of el. */
  scrolled(el: HTMLElement, atEnd: boolean): void {
    if (el.scrollTop < this.#top - 2 && el.scrollHeight >= this.#height - 2 && !atEnd) this.following = false;
    else if (atEnd) this.following = true;
    this.note(el);
  }

  /** Remembers where el is scrolled to now. */
  note(el: HTMLElement): void {
    this.#top = el.scrollTop;
    this.#height = el.scrollHeight;
  }
}
