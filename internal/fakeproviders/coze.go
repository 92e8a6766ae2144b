package fakeproviders

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// coze is the format of Coze's chat v3, for a chat or for going on with one that waits for the outputs of tools.
//
// Its bot has the prompt {{system_prompt}} and, as bots have by default, suggests a question after its answer.
type coze struct {
	outputs bool // of tools are submitted

	conversation, chat string
	created            int64
	delta              string // of an answer's frame, up to the content
	tail               string // of a message's frame, after the content
}

func (f *coze) kind() string { return "text/event-stream" }

func (f *coze) open(a *writer) {
	f.created = time.Now().Unix()
	if !f.outputs {
		f.conversation, f.chat = f.id(a, 1), f.id(a, 2)
	}
	f.delta = "event:conversation.message.delta\ndata:" + f.head(a, f.id(a, 3), "answer")
	f.tail = `,"content_type":"text","chat_id":` + quoted(f.chat) + `,"section_id":` + quoted(f.conversation) +
		`,"created_at":` + strconv.FormatInt(f.created, 10)
	f.frame(a, "conversation.chat.created", f.object(a, "created", ""))
	f.frame(a, "conversation.chat.in_progress", f.object(a, "in_progress", ""))
	for i, call := range a.answer.ToolCalls[:min(len(a.answer.ToolCalls), len(a.answer.ToolResults))] {
		f.message(a, f.callID(a, i), "function_call", function(call))
		f.message(a, f.id(a, 200+i), "tool_response", a.answer.ToolResults[i])
	}
}

func (f *coze) text(a *writer, token string) {
	a.buf = append(a.buf, f.delta...)
	a.buf = appendString(a.buf, token)
	a.buf = append(a.buf, f.tail...)
	a.buf = append(a.buf, "}\n\n"...)
}

func (f *coze) reasoning(a *writer, token string) {
	a.buf = append(a.buf, f.delta...)
	a.buf = append(a.buf, `"","reasoning_content":`...)
	a.buf = appendString(a.buf, token)
	a.buf = append(a.buf, f.tail...)
	a.buf = append(a.buf, "}\n\n"...)
}

// call shows a call that the client is to make; close then asks for its output. Those that Coze makes were shown at the start.
func (f *coze) call(a *writer, i int, c ToolCall) bool {
	if i < len(a.answer.ToolResults) {
		return true
	}
	if !a.due() {
		return false
	}
	f.message(a, f.id(a, 100+i), "function_call", function(c))
	return a.paced()
}

func (f *coze) close(a *writer) {
	if text := a.text(); text != "" || a.answer.Reasoning != "" {
		f.message(a, f.id(a, 3), "answer", text)
	}
	f.message(a, f.id(a, 4), "verbose", `{"msg_type":"generate_answer_finish","data":"{\"finish_reason\":0}","from_module":null,"from_unit":null}`)
	if len(a.answer.ToolCalls) > len(a.answer.ToolResults) {
		type call struct {
			ID       string         `json:"id"`
			Type     string         `json:"type"`
			Function map[string]any `json:"function"`
		}
		var calls []call
		for i, c := range a.answer.ToolCalls[len(a.answer.ToolResults):] {
			calls = append(calls, call{f.callID(a, len(a.answer.ToolResults)+i), "function", map[string]any{"name": c.Name, "arguments": c.Arguments}})
		}
		wanted, _ := json.Marshal(calls) // of strings: cannot fail
		f.frame(a, "conversation.chat.requires_action", f.object(a, "requires_action",
			`,"required_action":{"type":"submit_tool_outputs","submit_tool_outputs":{"tool_calls":`+string(wanted)+`}}`))
	} else {
		f.message(a, f.id(a, 5), "follow_up", "And what else?")
		f.frame(a, "conversation.chat.completed", f.object(a, "completed", ""))
	}
	a.buf = append(a.buf, "event:done\ndata:\"[DONE]\"\n\n"...)
}

// whole appends what Coze answers without a stream: the chat, which has only begun.
func (f *coze) whole(a *writer) {
	f.created = time.Now().Unix()
	f.conversation, f.chat = f.id(a, 1), f.id(a, 2)
	a.buf = append(a.buf, `{"data":`+f.object(a, "in_progress", "")+`,"code":0,"msg":""}`...)
}

func (f *coze) frame(a *writer, event, data string) {
	a.buf = append(a.buf, "event:"+event+"\ndata:"+data+"\n\n"...)
}

// message appends the frame of a message that is complete.
func (f *coze) message(a *writer, id, kind, content string) {
	f.frame(a, "conversation.message.completed",
		f.head(a, id, kind)+quoted(content)+f.tail+`,"updated_at":`+strconv.FormatInt(f.created, 10)+"}")
}

// head is a message up to its content.
func (f *coze) head(a *writer, id, kind string) string {
	return `{"id":` + quoted(id) + `,"conversation_id":` + quoted(f.conversation) + `,"bot_id":` + quoted(a.req.Model) +
		`,"role":"assistant","type":"` + kind + `","content":`
}

// object is a chat.
func (f *coze) object(a *writer, status, more string) string {
	prompt, completion := 0, 0
	if status == "completed" || status == "requires_action" {
		prompt, completion = a.used()
	}
	at := strconv.FormatInt(f.created, 10)
	return `{"id":` + quoted(f.chat) + `,"conversation_id":` + quoted(f.conversation) + `,"bot_id":` + quoted(a.req.Model) +
		`,"created_at":` + at + `,"completed_at":` + at + `,"last_error":{"code":0,"msg":""},"status":"` + status +
		`","usage":{"token_count":` + strconv.Itoa(prompt+completion) + `,"output_count":` + strconv.Itoa(completion) +
		`,"input_count":` + strconv.Itoa(prompt) + `}` + more + `,"section_id":` + quoted(f.conversation) + `}`
}

// id makes an id as long as Coze's, of which no two answers have the same.
func (f *coze) id(a *writer, n int) string {
	return strconv.FormatInt(7_400_000_000_000_000_000+int64(a.req.Attempt)*1000+int64(n), 10)
}

// callID is the id of a call: the script's, or one of Coze's own.
func (f *coze) callID(a *writer, i int) string {
	if id := a.answer.ToolCalls[i].ID; id != "" {
		return id
	}
	return f.id(a, 300+i)
}

// function is the content of a message that shows a call.
func function(c ToolCall) string {
	arguments := c.Arguments
	if !json.Valid([]byte(arguments)) {
		arguments = quoted(arguments)
	}
	return `{"name":` + quoted(c.Name) + `,"arguments":` + arguments + `,"plugin_id":7281192623887548473,"api_id":7288907006982012986,"plugin_type":1}`
}

// refuse answers with an error as Coze writes it. (The errors that Coze sends with status 200 are [Raw] ones.)
func (f *coze) refuse(w http.ResponseWriter, status int, body string) {
	writeError(w, status, body, func(message string) any {
		w.Header().Set("X-Tt-Logid", cozeLogid)
		return json.RawMessage(cozeError(cozeCode(status), message))
	})
}

const cozeLogid = "20260102030405C0FFEE"

// cozeError is what Coze says of a failure.
func cozeError(code int, said string) string {
	return `{"code":` + strconv.Itoa(code) + `,"msg":` + quoted(said) + `,"detail":{"logid":"` + cozeLogid + `"}}`
}

// cozeCode is the code that Coze gives for what other servers give a status.
func cozeCode(status int) int {
	switch status {
	case http.StatusBadRequest:
		return 4000
	case http.StatusUnauthorized:
		return 4100
	case http.StatusPaymentRequired:
		return 4011
	case http.StatusForbidden:
		return 4101
	case http.StatusNotFound:
		return 4200
	case http.StatusConflict:
		return 4016
	case http.StatusRequestEntityTooLarge:
		return 4010
	case http.StatusTooManyRequests:
		return 4009
	case http.StatusInternalServerError, http.StatusServiceUnavailable:
		return 5000
	default:
		return status // not Coze's own
	}
}

// read takes what a script may want to know from a request.
func (f *coze) read(r *http.Request, body []byte) (Request, error) {
	var in struct {
		BotID    string            `json:"bot_id"`
		Vars     map[string]string `json:"custom_variables"`
		Messages []struct {
			Role    string `json:"role"`
			Type    string `json:"type"`
			Content string `json:"content"`
			Kind    string `json:"content_type"`
		} `json:"additional_messages"`
		Stream  bool `json:"stream"`
		Outputs []struct {
			CallID string `json:"tool_call_id"`
			Output string `json:"output"`
		} `json:"tool_outputs"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	f.conversation, f.chat = r.URL.Query().Get("conversation_id"), r.URL.Query().Get("chat_id")
	req := Request{Model: in.BotID, Stream: in.Stream, Usage: true, Variables: in.Vars, Path: r.URL.Path}
	if prompt := in.Vars["system_prompt"]; prompt != "" {
		req.Messages = append(req.Messages, Message{Role: "system", Content: prompt})
	}
	for _, m := range in.Messages {
		if m.Kind == "object_string" {
			m.Content = joined(json.RawMessage(m.Content))
		}
		if m.Type == "tool_output" || m.Type == "tool_response" {
			m.Role = "tool"
		}
		req.Messages = append(req.Messages, Message{Role: m.Role, Content: m.Content})
	}
	for _, o := range in.Outputs {
		req.Messages = append(req.Messages, Message{Role: "tool", Content: o.Output})
	}
	return req, nil
}

// cancel takes the request to cancel a chat. It answers as Coze does; the stream of the chat goes on, as it does there.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var in struct {
		Conversation string `json:"conversation_id"`
		Chat         string `json:"chat_id"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Conversation == "" || in.Chat == "" {
		io.WriteString(w, cozeError(4000, "conversation_id and chat_id are required"))
		return
	}
	s.cancels.Add(1)
	s.change()
	io.WriteString(w, `{"data":{"id":`+quoted(in.Chat)+`,"conversation_id":`+quoted(in.Conversation)+`,"status":"canceled"},"code":0,"msg":""}`)
}

// upload takes a file, as Coze does for messages that refer to it.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	file, about, err := r.FormFile("file")
	if err != nil {
		io.WriteString(w, cozeError(4300, "there is no file"))
		return
	}
	defer file.Close()
	n, err := io.Copy(io.Discard, file)
	if err != nil {
		return
	}
	id := strconv.FormatInt(7_500_000_000_000_000_000+s.uploads.Add(1), 10)
	io.WriteString(w, `{"code":0,"data":{"bytes":`+strconv.FormatInt(n, 10)+`,"created_at":`+strconv.FormatInt(time.Now().Unix(), 10)+
		`,"file_name":`+quoted(about.Filename)+`,"id":"`+id+`"},"msg":""}`)
}

func quoted(s string) string { return string(appendString(nil, s)) }
