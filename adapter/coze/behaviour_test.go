package coze

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// recorder is a transport that remembers what was posted where.
type recorder struct {
	http.RoundTripper
	mu   sync.Mutex
	seen []string // "path?query body"
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("tenant") != "7" {
		return nil, fmt.Errorf("%s has lost the base URL's query", req.URL)
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	said, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.seen = append(r.seen, strings.TrimPrefix(req.URL.RequestURI(), "/v3/chat")+" "+string(said))
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(req)
}

// posts returns what was posted to a resource of a chat, "" being the chat itself.
func (r *recorder) posts(resource string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, s := range r.seen {
		path, body, _ := strings.Cut(s, " ")
		if name, query, _ := strings.Cut(path, "?"); name == resource {
			query = strings.TrimSuffix(strings.TrimSuffix(query, "tenant=7"), "&") // of the base URL
			list = append(list, strings.TrimSpace(query+" "+body))
		}
	}
	return list
}

// newModel returns a bot at a server in this process, what goes there, and its provider, which the test closes with it.
func newModel(t *testing.T, up *fakeproviders.Server) (adapter.Model, *recorder) {
	t.Helper()
	r := &recorder{RoundTripper: up.Transport()}
	p := newProvider(t, Options{Transport: r, BaseURL: "http://model.test?tenant=7", Key: adaptertest.Key})
	t.Cleanup(func() { p.(io.Closer).Close() })
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

func always(a fakeproviders.Answer) func(fakeproviders.Request) fakeproviders.Answer {
	return func(fakeproviders.Request) fakeproviders.Answer { return a }
}

func user(text string) adapter.Message { return adapter.Message{Role: adapter.User, Content: text} }

// AD-01, AD-03: a chat that is left is canceled at Coze, once, by its ids; the reader does not wait for that.
func TestAChatThatIsLeftIsCanceled(t *testing.T) {
	long := fakeproviders.Answer{Text: strings.Repeat("word", 1000), Pace: 10}
	for _, row := range []struct {
		name   string
		script fakeproviders.Answer
		leave  int           // after so many chunks
		cancel time.Duration // the context
		want   []string      // what was posted
	}{
		{name: "by leaving the loop", script: long, leave: 2, want: []string{ids("7400000000000001001", "7400000000000001002")}},
		{name: "by ending the context", script: long, cancel: 150 * time.Millisecond, want: []string{ids("7400000000000001001", "7400000000000001002")}},
		{name: "before there was a token", script: fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: chatCreated}, {Hang: true}}}, cancel: time.Second, want: []string{ids("740001", "740002")}},
		{name: "before Coze has said which it is", script: fakeproviders.Answer{Raw: []fakeproviders.Raw{{Hang: true}}}, cancel: time.Second},
		{name: "by leaving after the end", script: fakeproviders.Answer{Text: "word"}, leave: 2},
		{name: "not at all", script: fakeproviders.Answer{Text: "word word"}},
		{name: "not at all, but it failed", script: raw(chatCreated + text("a") + "event:error\ndata:{\"code\":5000}\n\n")},
		{name: "not at all, but it waits for tools", script: fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}}}},
		{name: "by an event that cannot be read", script: raw(chatCreated + "event:conversation.message.delta\ndata:oops\n\n"), want: []string{ids("740001", "740002")}},
		{name: "by a connection that broke", script: raw(chatCreated + text("a")), want: []string{ids("740001", "740002")}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &fakeproviders.Server{Script: always(row.script)}
				defer up.Close()
				m, r := newModel(t, up)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if row.cancel > 0 {
					time.AfterFunc(row.cancel, func() { cancel(errors.New("the run was canceled")) })
				}
				chunks := 0
				var left time.Time
				for range m.Stream(ctx, adapter.Request{Messages: []adapter.Message{user("hi")}}) {
					if chunks++; chunks == row.leave {
						left = time.Now()
						break
					}
				}
				if row.leave > 0 && time.Since(left) != 0 {
					t.Errorf("the reader waited for %v", time.Since(left))
				}
				synctest.Wait()
				if diff := cmp.Diff(row.want, r.posts("/cancel")); diff != "" {
					t.Error(diff)
				}
				if up.Cancels() != len(row.want) || up.Open() != 0 {
					t.Errorf("%d canceled, %d open", up.Cancels(), up.Open())
				}
			})
		})
	}
}

func ids(conversation, chat string) string {
	return fmt.Sprintf(`{"chat_id":%q,"conversation_id":%q}`, chat, conversation)
}

func raw(stream string) fakeproviders.Answer {
	return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: stream}}}
}

// Coze may take its time to hear of a canceled chat, but not for ever; Close waits for that, and only for that.
func TestCloseWaitsUntilCozeHasHeard(t *testing.T) {
	for _, row := range []struct {
		name  string
		takes time.Duration // to answer the cancel
		waits time.Duration
	}{
		{"at once", 0, 0},
		{"in a while", 2 * time.Second, 2 * time.Second},
		{"never", time.Hour, cancelTime},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := trip(func(r *http.Request) (*http.Response, error) {
					body := io.Reader(strings.NewReader(chatCreated + text("a") + text("b")))
					if strings.HasSuffix(r.URL.Path, "/cancel") {
						select {
						case <-time.After(row.takes):
						case <-r.Context().Done():
							return nil, r.Context().Err()
						}
						body = strings.NewReader(`{"code":0}`)
					}
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body)}, nil
				})
				p := newProvider(t, Options{Transport: transport})
				m, _ := p.Model("m")
				began := time.Now()
				for range m.Stream(t.Context(), adapter.Request{}) {
					break
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("the reader waited for %v", took)
				}
				p.(io.Closer).Close()
				if took := time.Since(began); took != row.waits {
					t.Errorf("closed after %v", took)
				}
				// A stream that is left later has nobody to wait for what it would say.
				for range m.Stream(t.Context(), adapter.Request{}) {
					break
				}
			})
		})
	}
}

// tools is a script of a bot that asks for the weather, twice at once, and then says what it was told.
func tools(r fakeproviders.Request) fakeproviders.Answer {
	if last := r.Messages[len(r.Messages)-1]; last.Role != "tool" && !strings.Contains(last.Content, "has answered") {
		return fakeproviders.Answer{
			ToolCalls: []fakeproviders.ToolCall{
				{ID: "s1", Name: "search", Arguments: `{}`},
				{ID: "c1", Name: "rain", Arguments: `{"at":"a"}`},
				{ID: "c2", Name: "rain", Arguments: `{"at":"b"}`},
			},
			ToolResults: []string{"found"},
		}
	}
	var said []string
	for _, m := range r.Messages {
		if m.Role == "tool" || strings.Contains(m.Content, "has answered") {
			said = append(said, m.Content[strings.LastIndex(m.Content, "\n")+1:])
		}
	}
	return fakeproviders.Answer{Text: strings.Join(said, ", ")}
}

// conversation is what a bot says of an answer of tools, and what its tools have.
func conversation(results ...string) []adapter.Message {
	messages := []adapter.Message{user("weather?"), {Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{
		{ID: "s1", Name: "search", Arguments: `{}`}, {ID: "c1", Name: "rain", Arguments: `{"at":"a"}`}, {ID: "c2", Name: "rain", Arguments: `{"at":"b"}`},
	}}}
	for _, r := range results {
		id, said, _ := strings.Cut(r, " ")
		messages = append(messages, adapter.Message{Role: adapter.ToolRole, ToolCallID: id, Content: said})
	}
	return messages
}

// AD-03: a chat that waits for our tools goes on with their outputs. Where nobody knows it any more, a new one is told of them.
func TestToolsOfOurs(t *testing.T) {
	results := conversation("s1 found", "c2 dry", "c1 wet")
	for _, row := range []struct {
		name     string
		between  func(t *testing.T, m adapter.Model) adapter.Model // the call and the results
		messages []adapter.Message
		submit   []string
		text     string
	}{
		{
			name: "the chat goes on", messages: results, text: "dry, wet",
			submit: []string{`chat_id=7400000000000001002&conversation_id=7400000000000001001 {"tool_outputs":[{"tool_call_id":"c2","output":"dry"},{"tool_call_id":"c1","output":"wet"}],"stream":true}`},
		},
		{name: "a result is missing", messages: conversation("c1 wet"), text: "wet"},
		{name: "they are the results of something else", messages: conversation("s1 found", "x1 dry", "x2 wet"), text: "found, dry, wet"},
		{name: "something was said after them", messages: append(conversation("c1 dry", "c2 wet"), user("The search has answered:\nit snows")), text: "dry, wet, it snows"},
		{
			name: "the server was started anew", messages: results, text: "found, dry, wet",
			between: func(t *testing.T, m adapter.Model) adapter.Model {
				old := m.(*model)
				fresh, _ := newProvider(t, Options{Transport: old.p.Client.Transport, BaseURL: "http://model.test?tenant=7"}).Model("m")
				return fresh
			},
		},
		{
			name: "another bot is asked", messages: results, text: "found, dry, wet",
			between: func(t *testing.T, m adapter.Model) adapter.Model {
				other, _ := m.(*model).p.Model("other")
				return other
			},
		},
		{
			name: "a thousand chats wait", messages: results, text: "found, dry, wet",
			between: func(t *testing.T, m adapter.Model) adapter.Model {
				for i := range maxWaiting {
					m.(*model).p.addWaiting(&chat{bot: "m", calls: []string{fmt.Sprint(i)}})
				}
				return m
			},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &fakeproviders.Server{Script: tools}
				defer up.Close()
				m, r := newModel(t, up)
				ours := []adapter.Tool{{Name: "rain"}}
				first := adaptertest.List(m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{user("weather?")}, Tools: ours}))
				want := `model coze:m tool 0 name "search" arguments "{}"
tool 0 id "s1" result 0 id "s1" content "found"
tool 1 name "rain" arguments "{\"at\":\"a\"}"
tool 2 name "rain" arguments "{\"at\":\"b\"}"
tool 1 id "c1"
tool 2 id "c2"
usage 2+7=9 finish tool_calls
`
				if diff := cmp.Diff(want, first); diff != "" {
					t.Fatal(diff)
				}
				if row.between != nil {
					m = row.between(t, m)
				}
				var text strings.Builder
				for c, err := range m.Stream(t.Context(), adapter.Request{Messages: row.messages, Tools: ours}) {
					if err != nil {
						t.Fatal(err)
					}
					text.WriteString(c.Text)
				}
				if text.String() != row.text {
					t.Errorf("%q", text.String())
				}
				if diff := cmp.Diff(row.submit, r.posts("/submit_tool_outputs")); diff != "" {
					t.Error(diff)
				}
				if chats := len(r.posts("")); chats != 2-len(row.submit) {
					t.Errorf("%d chats", chats)
				}
				if up.Cancels() != 0 {
					t.Errorf("%d chats were canceled", up.Cancels())
				}
			})
		})
	}
}

// What Coze says to the outputs of tools decides what becomes of them: a chat that does not wait for them any more is given up and
// a new one told of them, at once; for all else the outputs are kept.
func TestOutputsThatAreNotTaken(t *testing.T) {
	for _, row := range []struct {
		name    string
		refusal fakeproviders.Answer
		code    string // of the error
		chats   int    // in all, once the results were sent twice
	}{
		{"the chat is gone", coded(4001), "", 2},
		{"the chat was not kept", coded(5000), "", 2},
		{"too many requests", coded(4009), adapter.CodeRateLimited, 1},
		{"a gateway fails", fakeproviders.Answer{Status: 502, Body: "<html>", Header: http.Header{"Content-Type": {"text/html"}}}, adapter.CodeUnavailable, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
					if strings.HasSuffix(r.Path, "/submit_tool_outputs") && r.Attempt == 2 {
						return row.refusal
					}
					return tools(r)
				}}
				defer up.Close()
				m, r := newModel(t, up)
				for range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{user("weather?")}}) {
				}
				req := adapter.Request{Messages: conversation("s1 found", "c2 dry", "c1 wet")}
				var text string
				var last error
				for c, err := range m.Stream(t.Context(), req) {
					text, last = text+c.Text, err
				}
				if e, _ := errors.AsType[*adapter.Error](last); row.code == "" && (last != nil || text != "found, dry, wet") || row.code != "" && (e == nil || e.Code != row.code) {
					t.Errorf("%q %v", text, last)
				}
				if row.code != "" { // as package adapter does
					for c, err := range m.Stream(t.Context(), req) {
						text, last = text+c.Text, err
					}
					if text != "dry, wet" || last != nil {
						t.Errorf("%q %v", text, last)
					}
				}
				if chats := len(r.posts("")); chats != row.chats {
					t.Errorf("%d chats", chats)
				}
				if n := m.(*model).p.waiting.Len(); n != 0 {
					t.Errorf("%d chats are still waited for", n)
				}
			})
		})
	}
}

func coded(code int) fakeproviders.Answer {
	return fakeproviders.Answer{
		Raw:    []fakeproviders.Raw{{Bytes: fmt.Sprintf(`{"code":%d,"msg":"no"}`, code)}},
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

// A chat that goes on and is left before it answers is canceled too: its ids are known.
func TestAChatThatGoesOnIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			if strings.HasSuffix(r.Path, "/submit_tool_outputs") {
				return fakeproviders.Answer{Delay: time.Hour}
			}
			return tools(r)
		}}
		defer up.Close()
		m, r := newModel(t, up)
		for range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{user("weather?")}}) {
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, err := range m.Stream(ctx, adapter.Request{Messages: conversation("c2 dry", "c1 wet")}) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{ids("7400000000000001001", "7400000000000001002")}, r.posts("/cancel")); diff != "" {
			t.Error(diff)
		}
	})
}

// The chat that is started in place of one that is gone is the one that is canceled.
func TestTheChatThatTookOverIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			switch r.Attempt {
			case 2:
				return coded(4001)
			case 3:
				return fakeproviders.Answer{Text: strings.Repeat("word", 1000), Pace: 10}
			}
			return tools(r)
		}}
		defer up.Close()
		m, r := newModel(t, up)
		for range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{user("weather?")}}) {
		}
		for range m.Stream(t.Context(), adapter.Request{Messages: conversation("c2 dry", "c1 wet")}) {
			break
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{ids("7400000000000003001", "7400000000000003002")}, r.posts("/cancel")); diff != "" {
			t.Error(diff)
		}
	})
}

// Chats of many runs do not mix, whatever ends them.
func TestManyChatsWithTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			if last := r.Messages[len(r.Messages)-1]; last.Role == "tool" {
				return fakeproviders.Answer{Text: last.Content, Pace: 100}
			}
			return fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{{Name: "f", Arguments: `{}`}}}
		}}
		defer up.Close()
		m, r := newModel(t, up)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				question := user(fmt.Sprint("question ", i))
				var id strings.Builder
				for c, err := range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{question}, Tools: []adapter.Tool{{Name: "f"}}}) {
					if err != nil {
						t.Error(err)
						return
					}
					if c.ToolCall != nil {
						id.WriteString(c.ToolCall.ID)
					}
				}
				want, got := fmt.Sprint("the answer to question ", i), ""
				for c, err := range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{
					question,
					{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: id.String(), Name: "f", Arguments: "{}"}}},
					{Role: adapter.ToolRole, ToolCallID: id.String(), Content: want},
				}, Tools: []adapter.Tool{{Name: "f"}}}) {
					if err != nil {
						t.Error(err)
						return
					}
					if got += c.Text; i%3 == 0 && got != "" {
						break
					}
				}
				if got != want && i%3 != 0 || !strings.HasPrefix(want, got) || got == "" {
					t.Errorf("%q", got)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if n := m.(*model).p.waiting.Len(); n != 0 {
			t.Errorf("%d chats are still waited for", n)
		}
		if submitted, canceled := len(r.posts("/submit_tool_outputs")), len(r.posts("/cancel")); submitted != 100 || canceled != 34 {
			t.Errorf("%d submitted, %d canceled", submitted, canceled)
		}
	})
}
