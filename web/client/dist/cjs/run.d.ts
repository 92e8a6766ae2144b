import type { JSONValue } from "./fold.js";
import { RunError } from "./types.js";
import type { Growing, NamedEvent, PatternIn, RunEvent, RunStatus, ValueAt } from "./types.js";
/** Called with a value that has changed, where it is, and whether it is complete. A value that is written anew is null until then. */
export type Subscriber<V = JSONValue> = (value: V | null, uri: string, done: boolean) => void;
/**
 * One run of a workflow or agent, followed to its end. It is a promise of the final document, an async iterator of its
 * events, and a live view of the document.
 */
export declare class Run<T = JSONValue, E extends NamedEvent = never> implements PromiseLike<T>, AsyncIterable<RunEvent<E>> {
    #private;
    /** The run's id, as soon as it is known. */
    get id(): string | undefined;
    get status(): RunStatus;
    /** Why it has not completed. */
    get error(): RunError | undefined;
    /** The document so far. What is in it never changes: later ones share with it what has stayed the same. */
    get document(): Growing<T>;
    /** What stands beside the document, by uri: `$reasoning_context`, `$tools/0`, `$tool_results/0`. */
    get reserved(): Readonly<Record<string, JSONValue>>;
    then<A = T, B = never>(onDone?: ((document: T) => A | PromiseLike<A>) | null, onError?: ((reason: any) => B | PromiseLike<B>) | null): Promise<A | B>;
    catch<B = never>(onError?: ((reason: any) => B | PromiseLike<B>) | null): Promise<T | B>;
    finally(onEnd?: (() => void) | null): Promise<T>;
    /**
     * All events, as they come. Who begins late gets a snapshot first: the document as one delta at the root; so does who
     * falls far behind. It ends behind `finished` or `canceled`, and throws where the run could not be followed to there.
     * Leaving it neither cancels the run nor stops following it.
     */
    [Symbol.asyncIterator](): AsyncGenerator<RunEvent<E>, void, undefined>;
    /**
     * Calls fn for every value whose uri matches the pattern, once per animation frame in which it has changed, and once more
     * when it is complete. What is there already is told, too. Within a frame what has changed comes in the document's order, and
     * then what only became complete. Returns what ends it.
     */
    subscribe<P extends string>(pattern: P & PatternIn<T, P>, fn: Subscriber<Growing<ValueAt<T, P>>>): () => void;
    /** Calls fn once per animation frame in which the document, the status or anything else has changed. */
    watch(fn: () => void): () => void;
    /** Cancels the run on the server; what it has made is kept. Resolves when the server has taken note. */
    cancel(): Promise<void>;
    /**
     * Answers the question of an `approval_required` event, by its `id`. `reason` is for the model to read, and with `remember` the
     * tool need not ask again in this session. Rejects with `conflict` where somebody else was first, or the time is over.
     */
    approve(id: string, decision?: "approve" | "deny", more?: {
        reason?: string;
        remember?: "session";
    }): Promise<void>;
    /** Stops following. The run goes on, unless it was asked for with `on_disconnect: "cancel"`. */
    close(reason?: unknown): void;
}
