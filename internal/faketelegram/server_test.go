package faketelegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// call asks the server in this process.
func call(ctx context.Context, s *Server, method string, params any) (*reply, error) {
	body, _ := json.Marshal(params)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://fake/bot"+s.Token()+"/"+method, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.Transport().RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	got := new(reply)
	return got, json.NewDecoder(res.Body).Decode(got)
}

type object = map[string]any

var (
	ann     = &User{ID: 7, FirstName: "Ann", Username: "ann"}
	private = Chat{ID: 7, Type: "private", FirstName: "Ann", Username: "ann"}
	group   = Chat{ID: -5, Type: "group", Title: "G"}
	forum   = Chat{ID: -100, Type: "supergroup", Title: "F", IsForum: true}
)

// CH-196
func TestPollingWaitsAndConfirmsByOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil)
		defer s.Close()
		updates := func(offset int64, timeout int) []any {
			t.Helper()
			got, err := call(t.Context(), s, "getUpdates", object{"offset": offset, "timeout": timeout})
			if err != nil || !got.OK {
				t.Fatal(err, got)
			}
			return got.Result.([]any)
		}
		begin := time.Now()
		if got := updates(0, 50); len(got) != 0 || time.Since(begin) != 50*time.Second {
			t.Fatalf("%v after %v, expected nothing after 50s", got, time.Since(begin))
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(3 * time.Second)
			s.Say(Message{Chat: private, From: ann, Text: "hi"})
		})
		begin = time.Now()
		got := updates(0, 50)
		wg.Wait()
		if len(got) != 1 || time.Since(begin) != 3*time.Second {
			t.Fatalf("%v after %v, expected one after 3s", got, time.Since(begin))
		}
		id := int64(got[0].(object)["update_id"].(float64))
		if again := updates(0, 0); len(again) != 1 {
			t.Error("an update that was not confirmed is gone")
		}
		if again := updates(id+1, 0); len(again) != 0 || len(s.Pending()) != 0 {
			t.Error("an update that was confirmed is still there")
		}
	})
}

func TestTheSecondPollerEndsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil)
		defer s.Close()
		var first *reply
		var wg sync.WaitGroup
		wg.Go(func() { first, _ = call(t.Context(), s, "getUpdates", object{"timeout": 50}) })
		synctest.Wait()
		second, err := call(t.Context(), s, "getUpdates", object{"timeout": 1})
		wg.Wait()
		if err != nil || !second.OK || first.Code != http.StatusConflict || !strings.Contains(first.Description, "terminated by other getUpdates") {
			t.Errorf("first %+v, second %+v %v", first, second, err)
		}
	})
}

// CH-196
func TestRefusalsAreThoseOfThePlatform(t *testing.T) {
	s := New(nil)
	defer s.Close()
	s.AddChat(private)
	s.AddChat(forum, 3)
	asked := s.Say(Message{Chat: private, From: ann, Text: "hi"})
	s.AddChat(Chat{ID: 9, Type: "private"})
	s.CloseChat(9, "bot was blocked by the user")
	s.AddChat(group)
	s.Migrate(group.ID, -1005)
	mine, err := call(t.Context(), s, "sendMessage", object{"chat_id": 7, "text": "one"})
	if err != nil || !mine.OK {
		t.Fatal(mine, err)
	}
	id := mine.Result.(object)["message_id"]
	long := strings.Repeat("😀", 2048)
	for _, tt := range []struct {
		name, method string
		params       object
		want         string
	}{
		{"an unknown method", "sendNothing", object{}, "Not Found: method not found"},
		{"no chat", "sendMessage", object{"text": "x"}, "Bad Request: chat_id is empty"},
		{"a chat that is none", "sendMessage", object{"chat_id": 1, "text": "x"}, "Bad Request: chat not found"},
		{"no text", "sendMessage", object{"chat_id": 7}, "Bad Request: message text is empty"},
		{"nothing to see", "sendMessage", object{"chat_id": 7, "text": " \n"}, "Bad Request: text must be non-empty"},
		{"markup comes before the chat", "sendMessage", object{"chat_id": 1, "text": "<b>", "parse_mode": "html"}, `Bad Request: can't parse entities: Can't find end tag corresponding to start tag "b"`},
		{"a parse mode that is none", "sendMessage", object{"chat_id": 7, "text": "x", "parse_mode": "x"}, "Bad Request: unsupported parse_mode"},
		{"4096 units", "sendMessage", object{"chat_id": 7, "text": long}, ""},
		{"4096 units after parsing", "sendMessage", object{"chat_id": 7, "text": "<b>" + long + "</b>", "parse_mode": "HTML"}, ""},
		{"4097 units", "sendMessage", object{"chat_id": 7, "text": long + "a"}, "Bad Request: message is too long"},
		{"a reply to what is gone", "sendMessage", object{"chat_id": 7, "text": "x", "reply_parameters": object{"message_id": 99}}, "Bad Request: message to be replied not found"},
		{"the same, without caring", "sendMessage", object{"chat_id": 7, "text": "x", "reply_parameters": object{"message_id": 99, "allow_sending_without_reply": true}}, ""},
		{"a topic that is none", "sendMessage", object{"chat_id": -100, "message_thread_id": 4, "text": "x"}, "Bad Request: message thread not found"},
		{"a topic", "sendMessage", object{"chat_id": -100, "message_thread_id": 3, "text": "x"}, ""},
		{"who has blocked the bot", "sendMessage", object{"chat_id": 9, "text": "x"}, "Forbidden: bot was blocked by the user"},
		{"a group that has grown", "sendMessage", object{"chat_id": -5, "text": "x"}, "Bad Request: group chat was upgraded to a supergroup chat"},
		{"an edit that changes nothing", "editMessageText", object{"chat_id": 7, "message_id": id, "text": "one "}, "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message"},
		{"an edit", "editMessageText", object{"chat_id": 7, "message_id": id, "text": "two"}, ""},
		{"an edit of what is not ours", "editMessageText", object{"chat_id": 7, "message_id": asked.ID, "text": "two"}, "Bad Request: message can't be edited"},
		{"an edit of nothing", "editMessageText", object{"chat_id": 7, "message_id": 999, "text": "two"}, "Bad Request: message to edit not found"},
		{"a draft", "sendMessageDraft", object{"chat_id": 7, "draft_id": 1, "text": "t"}, ""},
		{"a draft without id", "sendMessageDraft", object{"chat_id": 7, "draft_id": 0, "text": "t"}, "Bad Request: draft_id must be non-zero"},
		{"a draft in a group", "sendMessageDraft", object{"chat_id": -100, "draft_id": 1, "text": "t"}, "Bad Request: TEXTDRAFT_PEER_INVALID"},
		{"an action", "sendChatAction", object{"chat_id": -100, "message_thread_id": 3, "action": "typing"}, ""},
		{"an action that is none", "sendChatAction", object{"chat_id": 7, "action": "jumping"}, "Bad Request: wrong parameter action in request"},
		{"a file that is none", "getFile", object{"file_id": "x"}, "Bad Request: wrong file_id or the file is temporarily unavailable"},
		{"a webhook without TLS", "setWebhook", object{"url": "http://a.example/"}, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook"},
		{"a secret with a space", "setWebhook", object{"url": "https://a.example/", "secret_token": "a b"}, "Bad Request: secret token contains unallowed characters"},
		{"commands", "setMyCommands", object{"commands": []object{{"command": "help", "description": "d"}}}, ""},
		{"a command with a capital", "setMyCommands", object{"commands": []object{{"command": "Help", "description": "d"}}}, "Bad Request: BOT_COMMAND_INVALID"},
		{"deleting", "deleteMessage", object{"chat_id": 7, "message_id": id}, ""},
		{"deleting again", "deleteMessage", object{"chat_id": 7, "message_id": id}, "Bad Request: message to delete not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := call(t.Context(), s, tt.method, tt.params)
			if err != nil {
				t.Fatal(err)
			}
			if got.Description != tt.want || got.OK != (tt.want == "") {
				t.Errorf("%q, expected %q", got.Description, tt.want)
			}
			if strings.Contains(tt.want, "upgraded") && got.Parameters.MigrateTo != -1005 {
				t.Error("it does not say where to")
			}
		})
	}
	if got, _ := call(t.Context(), s, "getMe", object{}); got.Result.(object)["username"] != "ling_bot" {
		t.Error(got)
	}
}

// CH-196
func TestFaultsAreScripted(t *testing.T) {
	s := New(nil)
	defer s.Close()
	s.AddChat(private)
	send := func() (*reply, error) {
		return call(t.Context(), s, "sendMessage", object{"chat_id": 7, "text": "x"})
	}
	s.Fail(
		Fault{Method: "sendMessage", Code: 429, RetryAfter: 3},
		Fault{Method: "sendMessage", Cut: CutBefore},
		Fault{Method: "sendMessage", Cut: CutAfter},
		Fault{Method: "sendMessage", Cut: Refused, Times: 1},
		Fault{Method: "sendMessage", Code: 502, Body: "<html>"},
	)
	var failed []error
	for range 5 {
		got, err := send()
		if got != nil && got.Code == 429 && got.Parameters.RetryAfter != 3 {
			t.Error("no retry_after")
		}
		failed = append(failed, err)
	}
	if failed[0] == nil { // the refusal of a connection comes before everything else
		t.Error("the connection was not refused")
	}
	if n := len(s.Messages(7, 0)); n != 1 {
		t.Errorf("%d messages, expected the one that was accepted before the cut", n)
	}
	if got, err := send(); err != nil || !got.OK {
		t.Error("the faults are not used up", got, err)
	}
	if n := len(s.Writes()); n != 5 {
		t.Errorf("%d writes are on record, expected 5", n)
	}
}

// CH-196
func TestWebhooksGetEachUpdateUntilItIsTaken(t *testing.T) {
	s := New(nil)
	defer s.Close()
	var mu sync.Mutex
	var got []string
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("X-Telegram-Bot-Api-Secret-Token")+string(body[:14]))
	}))
	defer http.DefaultClient.CloseIdleConnections()
	defer hook.Close()
	if r, err := call(t.Context(), s, "setWebhook", object{"url": hook.URL, "secret_token": "s"}); err != nil || !r.OK {
		t.Fatal(r, err)
	}
	s.Say(Message{Chat: private, From: ann, Text: "one"})
	s.Say(Message{Chat: private, From: ann, Text: "two"})
	if err := s.Await(t.Context(), func() bool { return len(s.Pending()) == 0 }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !strings.HasPrefix(got[0], `s{"update_id":`) {
		t.Error(got)
	}
	if r, _ := call(t.Context(), s, "getUpdates", object{}); r.Code != http.StatusConflict {
		t.Error("polling is possible beside a webhook")
	}
	if r, _ := call(t.Context(), s, "deleteWebhook", object{}); !r.OK || s.Webhook().URL != "" {
		t.Error("the webhook is still there")
	}
}

// The library is one client that others have written; bench/peers/telegram has more.
func TestTheLibraryReadsIt(t *testing.T) {
	s := New(nil)
	web := httptest.NewServer(s)
	defer web.Close()
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	said := make(chan *models.Update, 1)
	b, err := bot.New(s.Token(), bot.WithServerURL(web.URL), bot.WithHTTPClient(time.Second, client), bot.WithNotAsyncHandlers(),
		bot.WithDefaultHandler(func(_ context.Context, _ *bot.Bot, u *models.Update) { said <- u }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.Start(ctx) })
	defer wg.Wait()
	defer cancel()
	s.Say(Message{Chat: private, From: ann, Text: "hi @ling_bot"})
	u := <-said
	if u.Message.Text != "hi @ling_bot" || len(u.Message.Entities) != 1 || u.Message.From.ID != 7 {
		t.Errorf("%+v", u.Message)
	}
	m, err := b.SendMessage(ctx, &bot.SendMessageParams{ChatID: int64(7), Text: "<b>x</b>", ParseMode: models.ParseModeHTML, ReplyParameters: &models.ReplyParameters{MessageID: u.Message.ID}})
	if err != nil || m.Text != "x" || m.Entities[0].Type != "bold" || m.ReplyToMessage.ID != u.Message.ID {
		t.Errorf("%+v %v", m, err)
	}
	f := s.AddFile("a.txt", []byte("data"))
	file, err := b.GetFile(ctx, &bot.GetFileParams{FileID: f.FileID})
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Get(b.FileDownloadLink(file))
	if err != nil {
		t.Fatal(err)
	}
	data, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if string(data) != "data" {
		t.Errorf("%q", data)
	}
	s.Fail(Fault{Method: "sendMessage", Code: 429, RetryAfter: 7})
	_, err = b.SendMessage(ctx, &bot.SendMessageParams{ChatID: int64(7), Text: "x"})
	var slow *bot.TooManyRequestsError
	if !errors.As(err, &slow) || slow.RetryAfter != 7 {
		t.Error(err)
	}
	sent, err := b.SendPhoto(ctx, &bot.SendPhotoParams{ChatID: int64(7), Photo: &models.InputFileUpload{Filename: "p.png", Data: strings.NewReader("png")}})
	if err != nil || len(sent.Photo) != 1 {
		t.Errorf("%+v %v", sent, err)
	}
}
