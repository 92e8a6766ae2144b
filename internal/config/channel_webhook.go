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
			Help:  "signing secret of messages, such as whsec_…; or several",
			field: func(c *Config) any { return &of(c).Webhook.Secret },
		},
		{
			Key: at + "ack", Default: "immediate", OneOf: []string{"immediate", "result"},
			Help:  "answer to a message: at once, or with the reply",
			field: func(c *Config) any { return &of(c).Webhook.Ack },
		},
		{
			Key: at + "callback", check: checkURL,
			Help:  "https address for replies; required with ack immediate",
			field: func(c *Config) any { return &of(c).Webhook.Callback },
		},
		{
			Key: at + "callback_secret", Secret: true,
			Help:  "signing secret of replies; unset: the secret of messages",
			field: func(c *Config) any { return &of(c).Webhook.CallbackSecret },
		},
		{
			Key:   at + "callback_hosts",
			Help:  "hosts allowed for the callback, such as example.com:8443; unset: its own",
			field: func(c *Config) any { return &of(c).Webhook.CallbackHosts },
		},
		{
			Key: at + "max_body", Default: "1MiB", Min: "1KiB",
			Help:  "maximum size of a message, with media",
			field: func(c *Config) any { return &of(c).Webhook.MaxBody },
		},
		{
			Key: at + "allow_insecure", Default: "false",
			Help:  "allow http for the callback",
			field: func(c *Config) any { return &of(c).Webhook.AllowInsecure },
		},
		{
			Key:   at + "allow_private",
			Help:  "callback hosts that may be private or localhost",
			field: func(c *Config) any { return &of(c).Webhook.AllowPrivate },
		},
	}
}
