// What the clients' own types say of what they read. Where a server sends more than its client's types know, or the types are
// not what the client hands out, this says so; anything else that does not fit is a mistake of the stand-in.
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionMessage } from "openai/resources/chat/completions";
import type { Model as OpenAIModel } from "openai/resources/models";
import type { ChatResponse, Message as OllamaMessage, ModelResponse, ToolCall } from "ollama";
import type { ChatV3Message, CreateChatData } from "@coze/api";

// openai: reasoning_content is DeepSeek's, Qwen's and others' member.
interface Reasoning { reasoning_content?: string | null }
type Choice = Omit<ChatCompletionChunk.Choice, "delta"> & { delta: ChatCompletionChunk.Choice.Delta & Reasoning };
export type Chunk = Omit<ChatCompletionChunk, "choices"> & { choices: Choice[] };
// Azure says what its filter has found: of the question in a chunk of its own, of the answer beside it.
export type AzureChunk = Omit<Chunk, "choices"> & { choices: (Choice & { content_filter_results?: object })[] };
export interface AzureFilter { choices: never[]; created: 0; id: ""; model: ""; object: ""; prompt_filter_results: object[] }
export type Completion = Omit<ChatCompletion, "choices"> & {
  choices: (Omit<ChatCompletion.Choice, "message"> & { message: ChatCompletionMessage & Reasoning })[];
};
export type Model = OpenAIModel;
export type Ours = OpenAIModel & { default?: true };

// ollama: times stay text; calls have an id and an index since 0.12; only the last part has a reason and counts, and of those
// the server leaves out what is zero.
type Call = { id?: string; function: ToolCall["function"] & { index?: number } };
type Said = Omit<OllamaMessage, "tool_calls"> & { tool_calls?: Call[] };
type Counts = "total_duration" | "load_duration" | "prompt_eval_count" | "prompt_eval_duration" | "eval_count" | "eval_duration";
export interface Part { model: string; created_at: string; message: Said; done: false }
export type Last = Omit<ChatResponse, "created_at" | "message" | Counts> & { created_at: string; message: Said } & Partial<Pick<ChatResponse, Counts>>;
export type Listed = Omit<ModelResponse, "modified_at" | "expires_at" | "size_vram"> & { modified_at: string };

// coze: enums are text on the wire; a chat has the section, messages have no meta_data, reasoning_content only where they have
// reasoning, and updated_at only when they are complete.
type Optional = "meta_data" | "reasoning_content" | "updated_at";
export type Chat = Omit<CreateChatData, "status"> & { status: `${CreateChatData["status"]}`; section_id?: string };
export type Canceled = Omit<Chat, "bot_id"> & { bot_id?: string }; // the stand-in does not know which bot it was
export type Message = Omit<ChatV3Message, "role" | Optional> & { role: `${ChatV3Message["role"]}` } & Partial<Pick<ChatV3Message, Optional>>;
