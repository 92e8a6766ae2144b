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

func webhookSettings(at string, of func(*Config) *Channel) []Setting {
	return []Setting{
		{
			Key: at + "secret", Secret: true,
			Help:  "secret that messages are signed with, as whsec_…; several with a blank between are all good, for changing them",
			field: func(c *Config) any { return &of(c).Webhook.Secret },
		},
		{
			Key: at + "ack", Default: "immediate", OneOf: []string{"immediate", "result"},
			Help:  "how a message is answered: at once, with the reply going to the callback, or with the reply",
			field: func(c *Config) any { return &of(c).Webhook.Ack },
		},
		{
			Key: at + "callback", check: checkURL,
			Help:  "https address that replies are sent to; needed for ack immediate",
			field: func(c *Config) any { return &of(c).Webhook.Callback },
		},
		{
			Key: at + "callback_secret", Secret: true,
			Help:  "secret that replies are signed with; several with a blank between sign all; that of the messages unless set",
			field: func(c *Config) any { return &of(c).Webhook.CallbackSecret },
		},
		{
			Key:   at + "callback_hosts",
			Help:  "hosts that the callback may be at, as example.com or example.com:8443; its own unless set",
			field: func(c *Config) any { return &of(c).Webhook.CallbackHosts },
		},
		{
			Key: at + "max_body", Default: "1MiB", Min: "1KiB",
			Help:  "size of a message's body, media included",
			field: func(c *Config) any { return &of(c).Webhook.MaxBody },
		},
		{
			Key: at + "allow_insecure", Default: "false",
			Help:  "the callback may be http",
			field: func(c *Config) any { return &of(c).Webhook.AllowInsecure },
		},
		{
			Key:   at + "allow_private",
			Help:  "hosts of the callback that may have addresses of private networks and of this machine",
			field: func(c *Config) any { return &of(c).Webhook.AllowPrivate },
		},
	}
}
