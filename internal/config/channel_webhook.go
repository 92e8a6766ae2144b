package config

// Webhook has the settings of a channel of type webhook; see package channel/webhook.
type Webhook struct {
	Secret         Secret
	Callback       string
	CallbackSecret Secret
	CallbackHosts  []string
	Ack            string
	MaxBody        Size
	AllowInsecure  bool
	AllowPrivate   []string
}

var webhookSettings = settingsIn(func(ch *Channel) *Webhook { return &ch.Webhook }, []Setting{
	{Key: "secret", Secret: true, Help: "signing secret of messages, such as whsec_…; or several"},
	{Key: "ack", Default: "immediate", OneOf: []string{"immediate", "result"}, Help: "answer to a message: at once, or with the reply"},
	{Key: "callback", check: unlessEmpty(checkURL), Help: "https address for replies; required with ack immediate"},
	{Key: "callback_secret", Secret: true, Help: "signing secret of replies; unset: the secret of messages"},
	{Key: "callback_hosts", Help: "hosts allowed for the callback, such as example.com:8443; unset: its own"},
	{Key: "max_body", Default: "1MiB", Min: "1KiB", Help: "maximum size of a message, with media"},
	{Key: "allow_insecure", Default: "false", Help: "allow http for the callback"},
	{Key: "allow_private", Help: "callback hosts that may be private or localhost"},
})
