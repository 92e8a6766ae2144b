// Command telegram shows that internal/faketelegram is like the Bot API and that channel/telegram works with servers that others wrote:
// bot clients from npm talk to the one, and a Bot API server from npm is talked to by the other.
//
// It needs Node 20 and what npm install puts beside it; its README says more.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/internal/faketelegram"
	"github.com/lingserve/lingserve/store/db"
)

// patience is how long a client may take.
const patience = time.Minute

func main() {
	dir := flag.String("dir", "bench/peers/telegram", "the folder of the clients")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := run(ctx, *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "telegram:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "telegram: %d of the checks failed\n", failed)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) (failed int, err error) {
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "grammy")); err != nil {
		return 0, fmt.Errorf("the clients are not installed: run npm install --prefix %s", dir)
	}
	for _, client := range []string{"grammy", "telegraf", "node-telegram-bot-api"} {
		n, err := drive(ctx, dir, client)
		if err != nil {
			return failed, fmt.Errorf("%s: %w", client, err)
		}
		failed += n
	}
	n, err := talk(ctx, dir)
	return failed + n, err
}

// steps are what the clients do, in order, and what they are to understand.
var steps = []struct{ name, want string }{
	{"getMe", `[42,true,"ling_bot",false]`},
	{"a message", `["😀 hi @ling_bot",7,"private",["mention 6+9"]]`},
	{"a message in a topic", `["in a topic",3,true,true]`},
	{"a document", `["notes.txt",5,"notes"]`},
	{"HTML", `["b 😀 < l",["bold 0+4","italic 2+2","text_link 7+1 https://a.example/"],true]`},
	{"MarkdownV2", `["b c x\n 1.",["bold 0+1","code 2+1","pre 4+2 go"]]`},
	{"into a topic", `[3,true]`},
	{"bad HTML", `[400,"Bad Request: can't parse entities: Can't find end tag corresponding to start tag \"b\"",{}]`},
	{"bad MarkdownV2", `[400,"Bad Request: can't parse entities: Character '.' is reserved and must be escaped with the preceding '\\'",{}]`},
	{"too long", `[400,"Bad Request: message is too long",{}]`},
	{"no such chat", `[400,"Bad Request: chat not found",{}]`},
	{"blocked", `[403,"Forbidden: bot was blocked by the user",{}]`},
	{"too many", `[429,"Too Many Requests: retry after 3",{"retry_after":3}]`},
	{"migrated", `[400,"Bad Request: group chat was upgraded to a supergroup chat",{"migrate_to_chat_id":-1005}]`},
	{"an edit", `[true,"new *text*","number"]`},
	{"an edit that changes nothing", `[400,"Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",{}]`},
	{"typing", `true`},
	{"a photo", `[1,"a c","underline"]`},
	{"commands", `true`},
	{"buttons", `[["Approve approve:q"]]`},
	{"a press", `["approve:q",7,true,1]`},
	{"its answer", `true`},
	{"an edit without buttons", `["it may",null]`},
	{"an answer to nobody", `[400,"Bad Request: query is too old and response timeout expired or query ID is invalid",{}]`},
	{"too long data", `[400,"Bad Request: BUTTON_DATA_INVALID",{}]`},
	{"a menu for one person", `true`},
	{"deleting", `true`},
	{"the webhook", `""`},
}

// drive lets one client do all steps.
func drive(ctx context.Context, dir, client string) (failed int, err error) {
	fake := faketelegram.New(nil)
	defer fake.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	server := &http.Server{Handler: fake, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener)
	defer server.Close()

	ann := &faketelegram.User{ID: 7, FirstName: "Ann"}
	private := faketelegram.Chat{ID: 7, Type: "private", FirstName: "Ann"}
	forum := faketelegram.Chat{ID: -1007, Type: "supergroup", Title: "Forum", IsForum: true}
	for _, c := range []faketelegram.Chat{private, {ID: 9, Type: "private"}, {ID: 10, Type: "private"}, {ID: -5, Type: "group", Title: "G"}} {
		fake.AddChat(c)
	}
	fake.AddChat(forum, 3)
	fake.CloseChat(9, "bot was blocked by the user")
	// The clients try some refusals again by themselves, so that this one stays.
	fake.Fail(
		faketelegram.Fault{Method: "sendMessage", Chat: 10, Code: http.StatusTooManyRequests, RetryAfter: 3, Times: -1},
		faketelegram.Fault{Method: "sendMessage", Chat: -5, Code: http.StatusBadRequest, MigrateTo: -1005, Times: -1},
	)
	fake.Say(faketelegram.Message{Chat: private, From: ann, Text: "😀 hi @ling_bot"})
	fake.Say(faketelegram.Message{Chat: forum, From: ann, Text: "in a topic", ThreadID: 3, IsTopic: true})
	notes := fake.AddFile("notes.txt", []byte("notes"))
	fake.Say(faketelegram.Message{Chat: private, From: ann, Document: &notes})

	pressing, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // somebody presses the first button that there is
		for press := ""; press == ""; {
			var asked faketelegram.Message
			err := fake.Await(pressing, func() bool {
				for _, m := range fake.Messages(7, fake.Me().ID) {
					if m.Keyboard != nil {
						asked = m
					}
				}
				return asked.ID != 0
			})
			if err != nil {
				return
			}
			press = fake.Press(7, asked.ID, ann, "Approve")
		}
	}()

	said, err := script(ctx, dir, client+".mjs", "http://"+listener.Addr().String(), fake.Token())
	for i, step := range steps {
		got := "nothing"
		if i < len(said) {
			if said[i].Name != step.name {
				return failed, fmt.Errorf("the script is at %q, expected %q", said[i].Name, step.name)
			}
			got = string(said[i].Got)
		}
		if !sameJSON(got, step.want) {
			failed++
			fmt.Printf("FAIL %s: %s: got %s, expected %s\n", client, step.name, got, step.want)
			continue
		}
		fmt.Printf("ok   %s: %s\n", client, step.name)
	}
	return failed, err
}

func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

// line is what a script prints for a step.
type line struct {
	Name string          `json:"name"`
	Got  json.RawMessage `json:"got"`
}

// node is a command whose environment has nothing that clients look at.
func node(ctx context.Context, dir, script string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", append([]string{"--no-deprecation", filepath.Join(dir, script)}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "NO_COLOR=1"}
	cmd.Stderr = os.Stderr
	return cmd
}

// script runs one to its end.
func script(ctx context.Context, dir, name string, args ...string) (said []line, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the client takes too long, or keeps its process from ending"))
	defer cancel()
	out, err := node(ctx, dir, name, args...).Output()
	for text := range strings.Lines(string(out)) {
		var l line
		if json.Unmarshal([]byte(text), &l) != nil {
			return said, fmt.Errorf("the client says on its console: %s", text)
		}
		said = append(said, l)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return said, err
}

// agent answers with what it was told.
type agent struct{}

func (agent) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	t.Queued()
	text := "**" + t.Context.SenderName + "** said: " + t.Context.BodyForAgent
	if t.Context.CommandAuthorized {
		text = "command: " + t.Context.BodyForCommands
	}
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text})
}

// talk lets our channel talk to a server that others wrote.
func talk(ctx context.Context, dir string) (failed int, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close() // for the server to take
	const token = "42:peer"
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the server takes too long"))
	defer cancel()
	cmd := node(ctx, dir, "server.mjs", strconv.Itoa(port), token)
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { in.Close(); cmd.Wait() }()
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		return 0, fmt.Errorf("telegram-test-api does not start: %w", err)
	}
	settings, err := channel.NewTree(channel.Configuration{
		{Level: channel.OfChannel, Channel: "telegram"}: {DMPolicy: channel.PolicyOpen, CommandMode: channel.CommandsSenders, Agent: "echo"},
	})
	if err != nil {
		return 0, err
	}
	bot, err := telegram.New(telegram.Settings{Token: token, Settings: platform.Settings{API: "http://127.0.0.1:" + strconv.Itoa(port)}})
	if err != nil {
		return 0, err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	d, err := db.Open(ctx, "memory", nil)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	go func() {
		q := kernel.NewQueue(&kernel.Kernel{Agent: agent{}, Settings: settings, Store: d.Events()}, kernel.QueueOptions{Replica: "peer"})
		defer q.Close()
		done <- bot.Serve(serving, q)
	}()
	for _, c := range []struct{ name, text, want, mode string }{
		{"a message", "hello <you>", "<b>Ann</b> said: hello &lt;you&gt;", "HTML"},
		{"a second one", "😀 again", "<b>Ann</b> said: 😀 again", "HTML"},
		{"a command", "/tape_info now", "command: ,tape.info now", "HTML"},
	} {
		if err := json.NewEncoder(in).Encode(map[string]any{"text": c.text, "command": strings.HasPrefix(c.text, "/")}); err != nil {
			return failed, err
		}
		answer, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return failed, err
		}
		var got struct {
			Said []struct {
				Text string `json:"text"`
				Mode string `json:"parse_mode"`
				Chat any    `json:"chat_id"`
			} `json:"said"`
		}
		if json.Unmarshal(answer, &got) != nil || len(got.Said) != 1 || got.Said[0].Text != c.want || got.Said[0].Mode != c.mode || fmt.Sprint(got.Said[0].Chat) != "7" {
			failed++
			fmt.Printf("FAIL telegram-test-api: %s: got %s, expected %s\n", c.name, answer, c.want)
			continue
		}
		fmt.Printf("ok   telegram-test-api: %s\n", c.name)
	}
	stop()
	return failed, <-done
}
