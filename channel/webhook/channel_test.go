package webhook

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/internal/fakecallback"
)

// platform is a backend over real sockets.
type platform struct {
	t    *testing.T
	c    *Channel
	k    *channel.Kernel
	back *fakecallback.Server
	in   *httptest.Server // the channel's door
	out  *httptest.Server // the callback
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, k *channel.Kernel, grace time.Duration) channeltest.Platform {
	p := &platform{t: t, k: k, back: fakecallback.New(vectorSecret), done: make(chan error, 1)}
	p.out = httptest.NewServer(p.back)
	var err error
	p.c, err = New(Settings{
		Secret: vectorSecret, Callback: p.out.URL, AllowInsecure: true, AllowPrivate: []string{"127.0.0.1"}, Grace: grace,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.c.firstWait = time.Millisecond
	p.in = httptest.NewServer(p.c.Webhook())
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.done <- p.c.Serve(ctx, k) }()
	for p.c.open.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	return p
}

func (p *platform) body(m channeltest.Message) []byte {
	sender, chat, kind := max(m.Sender, 1), max(m.Chat, 1), "direct"
	if m.Group {
		kind = "group"
	}
	return fmt.Appendf(nil, `{"sender":{"id":"s%d"},"conversation":{"id":"%s-%d","kind":"%s"},"text":%q,"mentioned":%t}`,
		sender, kind, chat, kind, m.Text, m.Mention)
}

func (p *platform) Send(ctx context.Context, m channeltest.Message) error {
	body := p.body(m)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.in.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	secrets(p.t, vectorSecret).Sign(req.Header, fmt.Sprint("msg-", m.ID), time.Now(), body)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the answer is %s", res.Status)
	}
	return nil
}

func (p *platform) Shown() []string { return texts(p.back) }

func (p *platform) Writes() int { return len(p.back.Requests()) }

func (p *platform) Fail(how channeltest.Failure) bool {
	switch how {
	case channeltest.FailRefused:
		p.back.Then(fakecallback.Step{Status: http.StatusForbidden})
	case channeltest.FailUnknown:
		p.back.Then(slices.Repeat([]fakecallback.Step{{Cut: true}}, attempts)...)
	default: // what is sent, is sent whole
		return false
	}
	return true
}

func (p *platform) Stop() error {
	p.stop()
	err := <-p.done
	p.in.Close()
	p.out.Close()
	http.DefaultClient.CloseIdleConnections()
	return err
}

func TestEveryHookIsOneThatTheKernelCalls(t *testing.T) { // CH-07
	channeltest.Hooks(t, &adapter{})
	channeltest.Hooks(t, &challenger{})
	channeltest.Hooks(t, &delivery{})
	channeltest.Hooks(t, &sender{})
}

func TestTheChannelPassesTheSuite(t *testing.T) { // CH-191, CH-196
	channeltest.Run(t, channeltest.Fixture{Start: start, Groups: true, Redelivers: true})
}
