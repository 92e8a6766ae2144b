// Images and files beside a message, and the sources and media beside an answer.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { call, Problem, problem } from "./api.js";
import { withSizes } from "./failure.js";
import type { Live } from "./live.js";
import { uploadLimit } from "./store.js";
import { size } from "./ui.js";

/** A file that is to go with the next message: uploaded, or on its way. */
export interface Attached {
  name: string;
  bytes: number;
  id?: string; // once it is uploaded
  failed?: string;
}

const accepted = "image/*,application/pdf,audio/*,text/*,.md,.csv,.json,.yaml";

/** What a composer needs to take files: a list, and how to add some from wherever they come. */
export function useFiles() {
  const [files, set] = useState<Attached[]>([]);
  const add = (list: Iterable<File>): void => {
    for (const file of list) {
      const one: Attached = { name: file.name || "pasted", bytes: file.size };
      const change = (by: Partial<Attached>): void => set((all) => all.map((f) => (f === one ? Object.assign(one, by) && one : f)));
      set((all) => [...all, one]);
      const limit = uploadLimit.peek();
      if (limit !== undefined && file.size > limit) {
        change({ failed: `larger than ${size(limit)}` });
        continue;
      }
      upload(file, one.name).then(
        (id) => change({ id }),
        (e: unknown) => change({ failed: withSizes(e instanceof Error ? e.message : String(e)) }),
      );
    }
  };
  return {
    files,
    add,
    remove: (one: Attached): void => set((all) => all.filter((f) => f !== one)),
    clear: (): void => set([]),
    /** Whether one is on its way still, or could not be uploaded. */
    pending: files.some((f) => !f.id),
    /** As a request names them. */
    parts: files.flatMap((f) => (f.id ? [{ type: "file" as const, file_id: f.id }] : [])),
    paste: (e: ClipboardEvent): void => {
      const list = Array.from(e.clipboardData?.files ?? []);
      if (list.length === 0) return;
      e.preventDefault();
      add(list);
    },
    drop: (e: DragEvent): void => {
      if (!e.dataTransfer?.types.includes("Files")) return;
      e.preventDefault();
      add(Array.from(e.dataTransfer.files));
    },
    over: (e: DragEvent): void => {
      if (e.dataTransfer?.types.includes("Files")) e.preventDefault();
    },
  };
}

async function upload(file: File, name: string): Promise<string> {
  let answer: Response;
  try {
    answer = await call("/v1/files?filename=" + encodeURIComponent(name), {
      method: "POST", headers: { Accept: "application/json", "Content-Type": file.type || "application/octet-stream" }, body: file,
    });
  } catch {
    throw new Problem("unreachable", "the server cannot be reached");
  }
  if (!answer.ok) throw await problem(answer);
  return (await answer.json()).id;
}

/** The button that adds files, and those that were added. */
export function FileChips({ of }: { of: ReturnType<typeof useFiles> }) {
  const input = useRef<HTMLInputElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  return (
    <div class="files">
      <input
        ref={input} type="file" multiple accept={accepted} hidden
        onChange={(e) => (of.add(Array.from(e.currentTarget.files ?? [])), (e.currentTarget.value = ""))}
      />
      <button ref={button} type="button" class="button small" onClick={() => input.current?.click()}>Add files</button>
      {uploadLimit.value !== undefined && <span class="quiet">up to {size(uploadLimit.value)} each</span>}
      {of.files.length > 0 && (
        <ul class="files-list" aria-label="Files of the message" aria-live="polite">
          {of.files.map((f, i) => (
            <li key={i} class={f.failed ? "file failed" : "file"}>
              <span class="file-name">{f.name}</span>
              <span class="quiet">{f.failed ?? (f.id ? size(f.bytes) : "uploading")}</span>
              <button type="button" class="file-remove" aria-label={`Remove ${f.name}`} onClick={() => (of.remove(f), button.current?.focus())}>×</button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** What stands at a reserved name of all bots of a run, $citations or $media. */
export function madeOf(live: Live, name: string): any[] {
  const reserved: Readonly<Record<string, any>> = live.run.reserved;
  return Object.keys(reserved).filter((uri) => uri === name || uri.endsWith("/" + name)).flatMap((uri) => Object.values(reserved[uri] ?? {}));
}

/** The sources of an answer, and the images and sounds that the model made. */
export function Made({ live }: { live: Live }) {
  const cited = madeOf(live, "$citations");
  const media = madeOf(live, "$media");
  const id = useId();
  return (
    <>
      {media.map((m, i) => <Medium key={i} type={String(m?.type)} url={String(m?.url)} />)}
      {cited.length > 0 && (
        <section class="sources" aria-labelledby={id}>
          <h3 class="side-title" id={id}>Sources</h3>
          <ol>{cited.map((c, i) => <li key={i}><Source {...c} /></li>)}</ol>
        </section>
      )}
    </>
  );
}

function Source({ url, title }: { url?: string; title?: string }) {
  if (!url || !/^https?:\/\//.test(url)) return <>{title ?? url}</>;
  return <a href={url} target="_blank" rel="noreferrer noopener">{title || url}</a>;
}

// A file of the server is fetched with the key, which an address in the page would not send.
function Medium({ type, url }: { type: string; url: string }) {
  const [data, set] = useState<string | undefined>(undefined);
  const own = url.startsWith("/");
  useEffect(() => {
    if (!own) return;
    let gone = false;
    void call(url).then(async (answer) => {
      if (!answer.ok) return;
      const reader = new FileReader();
      reader.onload = () => gone || set(String(reader.result));
      reader.readAsDataURL(await answer.blob());
    }, () => undefined);
    return () => {
      gone = true;
    };
  }, [url]);
  if (!own) return <p><Source url={url} title={url} /></p>;
  if (!data) return <p class="quiet">{type}</p>;
  if (type.startsWith("image/")) return <img class="made" src={data} alt="Made by the model" />;
  return <p><a href={data} download>{type.startsWith("audio/") ? "Audio" : "File"} ({type})</a></p>;
}
