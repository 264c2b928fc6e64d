// franz-go as a program under test; docs/client-protocol.md has the lines.
//
// TryProduce refuses a record by its promise, with ErrMaxBuffered; every other error of a promise
// is of a record that was buffered.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	maxBuffered = 100_000
	// Beside the time for which a broker may wait for its followers, this is how long its answer
	// may take.
	overhead   = time.Second
	openWithin = 30 * time.Second
	// The name of the only header of a tombstone, whose value says which record it is.
	tombstoneHeader = "ackproof"
)

type program struct {
	version    string
	topic      string
	properties map[string]string
	lines      *bufio.Reader
	client     *kgo.Client
	mutex      sync.Mutex
	said       *bufio.Writer
}

func main() {
	p := &program{properties: map[string]string{}, said: bufio.NewWriter(os.Stdout)}
	if err := p.run(bufio.NewReaderSize(os.Stdin, 1<<16)); err != nil {
		p.say("fatal " + strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
}

func (p *program) run(lines *bufio.Reader) error {
	p.lines = lines
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.obey(strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
}

func (p *program) obey(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "send", "keyed", "tombstone":
		return p.send(verb, strings.Split(rest, " "))
	case "topic":
		p.topic = rest
		return nil
	case "property":
		name, value, _ := strings.Cut(rest, " ")
		p.properties[name] = value
		return nil
	case "open":
		return p.open()
	case "subscribe":
		return p.subscribe() // which obeys to the end
	case "flush":
		go p.flush() // its end may be the end of the input
		return nil
	case "protocol":
		if rest != "1" && rest != "2" {
			return fmt.Errorf("version %s of the protocol is not known here", rest)
		}
		p.version = rest
		return nil
	}
	return fmt.Errorf("told what is no line: %s", verb)
}

func (p *program) open() error {
	options, err := p.options()
	if err != nil {
		return err
	}
	if p.client, err = kgo.NewClient(options...); err != nil {
		return err
	}
	within, done := context.WithTimeout(context.Background(), openWithin)
	defer done()
	if err := p.client.Ping(within); err != nil {
		return err
	}
	p.ready()
	return nil
}

func (p *program) ready() {
	if p.version == "2" {
		p.say("ready 2")
	} else {
		p.say("ready")
	}
}

// options are what franz-go calls Kafka's properties.
func (p *program) options() ([]kgo.Opt, error) {
	idempotent := p.properties["enable.idempotence"] == "true"
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(partitioner)),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.RequestTimeoutOverhead(overhead),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	secured, err := security(p.properties)
	if err != nil {
		return nil, err
	}
	options = append(options, secured...)
	for name, value := range p.properties {
		if securing(name) {
			continue
		}
		option, err := option(name, value, idempotent)
		if err != nil {
			return nil, fmt.Errorf("property %s: %w", name, err)
		}
		if option != nil {
			options = append(options, option)
		}
	}
	return options, nil
}

func option(name, value string, idempotent bool) (kgo.Opt, error) {
	switch name {
	case "bootstrap.servers":
		return kgo.SeedBrokers(strings.Split(value, ",")...), nil
	case "client.id":
		return kgo.ClientID(value), nil
	case "acks":
		return acks(value)
	case "compression.type":
		return compression(value)
	case "enable.idempotence":
		return nil, nil
	}
	number, err := strconv.Atoi(value)
	if err != nil {
		return nil, err
	}
	switch name {
	case "linger.ms":
		return kgo.ProducerLinger(milliseconds(number)), nil
	case "batch.size":
		return kgo.ProducerBatchMaxBytes(int32(number)), nil
	case "delivery.timeout.ms":
		return kgo.RecordDeliveryTimeout(milliseconds(number)), nil
	case "request.timeout.ms":
		return kgo.ProduceRequestTimeout(milliseconds(number)), nil
	case "retries":
		return kgo.RecordRetries(number), nil
	case "max.in.flight.requests.per.connection":
		if idempotent { // up to 5, always
			return nil, nil
		}
		return kgo.MaxProduceRequestsInflightPerBroker(number), nil
	}
	return nil, errors.New("franz-go has nothing for it")
}

func securing(name string) bool {
	return name == "security.protocol" || strings.HasPrefix(name, "sasl.") ||
		strings.HasPrefix(name, "ssl.")
}

// security is what franz-go calls Kafka's properties of a secured connection.
func security(properties map[string]string) ([]kgo.Opt, error) {
	var options []kgo.Opt
	protocol := properties["security.protocol"]
	if strings.HasSuffix(protocol, "SSL") {
		config, err := tlsConfig(properties)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if strings.HasPrefix(protocol, "SASL") {
		login := login(properties["sasl.jaas.config"])
		user, password := login["username"], login["password"]
		switch mechanism := properties["sasl.mechanism"]; mechanism {
		case "PLAIN":
			options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
		case "SCRAM-SHA-256":
			auth := scram.Auth{User: user, Pass: password}
			options = append(options, kgo.SASL(auth.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			auth := scram.Auth{User: user, Pass: password}
			options = append(options, kgo.SASL(auth.AsSha512Mechanism()))
		case "OAUTHBEARER":
			options = append(options, kgo.SASL(oauth.Auth{Token: login["token"]}.AsMechanism()))
		default:
			return nil, fmt.Errorf("no sasl.mechanism %q", mechanism)
		}
	}
	return options, nil
}

var said = regexp.MustCompile(`(username|password|token)="((?:[^"\\]|\\.)*)"`)
var escaped = regexp.MustCompile(`\\(.)`)

// login is the user and the password, or the token, in a line of JAAS.
func login(jaas string) map[string]string {
	options := map[string]string{}
	for _, found := range said.FindAllStringSubmatch(jaas, -1) {
		options[found[1]] = escaped.ReplaceAllString(found[2], "$1")
	}
	return options
}

func tlsConfig(properties map[string]string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if trusted, given := properties["ssl.truststore.certificates"]; given {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(lines(trusted)) {
			return nil, errors.New("ssl.truststore.certificates: no certificate")
		}
	}
	if chain, given := properties["ssl.keystore.certificate.chain"]; given {
		own, err := tls.X509KeyPair(lines(chain), lines(properties["ssl.keystore.key"]))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	if algorithm, given := properties["ssl.endpoint.identification.algorithm"]; given && algorithm == "" {
		// Go leaves out the name only together with the chain, which is therefore verified here.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error {
			options := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
			for _, one := range state.PeerCertificates[1:] {
				options.Intermediates.AddCert(one)
			}
			_, err := state.PeerCertificates[0].Verify(options)
			return err
		}
	}
	return config, nil
}

var block = regexp.MustCompile(`(-----BEGIN [^-]+-----) (.*?) (-----END [^-]+-----)`)

// lines are PEM blocks with their line breaks, for which a property has spaces.
func lines(text string) []byte {
	var found strings.Builder
	for _, one := range block.FindAllStringSubmatch(text, -1) {
		found.WriteString(one[1] + "\n" + strings.ReplaceAll(one[2], " ", "\n") + "\n" + one[3] + "\n")
	}
	return []byte(found.String())
}

func acks(value string) (kgo.Opt, error) {
	switch value {
	case "0":
		return kgo.RequiredAcks(kgo.NoAck()), nil
	case "1":
		return kgo.RequiredAcks(kgo.LeaderAck()), nil
	case "all":
		return kgo.RequiredAcks(kgo.AllISRAcks()), nil
	}
	return nil, fmt.Errorf("no acks %q", value)
}

func compression(value string) (kgo.Opt, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}
	codec, known := codecs[value]
	if !known {
		return nil, fmt.Errorf("no codec %q", value)
	}
	return kgo.ProducerBatchCompression(codec), nil
}

// chosen stands for the partition that the library chooses by the key.
const chosen = -1

// partitioner is the library's default for records that name no partition.
func partitioner(topic string) func(*kgo.Record, int) int {
	byKey := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	return func(r *kgo.Record, partitions int) int {
		if r.Partition == chosen {
			return byKey.Partition(r, partitions)
		}
		return int(r.Partition)
	}
}

// record is that of a line: send NUMBER PARTITION VALUE, or with a KEY before the value keyed or
// tombstone. The topic may follow.
func (p *program) record(verb string, words []string) (*kgo.Record, error) {
	last := 2
	if verb != "send" {
		last = 3
	}
	if len(words) < last+1 || len(words) > last+2 {
		return nil, fmt.Errorf("told what is no line: %s", verb)
	}
	record := &kgo.Record{Topic: p.topic, Partition: chosen}
	if len(words) == last+2 {
		record.Topic = words[last+1]
	}
	if words[1] != "-" || verb == "send" {
		partition, err := strconv.ParseInt(words[1], 10, 32)
		if err != nil {
			return nil, err
		}
		record.Partition = int32(partition)
	}
	var err error
	if verb != "send" {
		if record.Key, err = base64.StdEncoding.DecodeString(words[2]); err != nil {
			return nil, err
		}
	}
	if record.Value, err = base64.StdEncoding.DecodeString(words[last]); err != nil {
		return nil, err
	}
	if verb == "tombstone" {
		record.Headers = []kgo.RecordHeader{{Key: tombstoneHeader, Value: record.Value}}
		record.Value = nil
	}
	return record, nil
}

func (p *program) send(verb string, words []string) error {
	record, err := p.record(verb, words)
	if err != nil {
		return err
	}
	number, told := words[0], ""
	p.client.TryProduce(context.Background(), record, func(r *kgo.Record, err error) {
		if words[1] == "-" {
			told = " " + strconv.Itoa(int(r.Partition))
		}
		switch {
		case errors.Is(err, kgo.ErrMaxBuffered):
			p.say("refused " + number + " ErrMaxBuffered")
		case err != nil:
			p.say("failed " + number + " " + named(err))
		case r.Offset < 0:
			p.say("acked " + number + " -" + told)
		default:
			p.say("acked " + number + " " + strconv.FormatInt(r.Offset, 10) + told)
		}
	})
	return nil
}

// named is an error in one word: Kafka's name of a broker's, the variable of one of the library's.
func named(err error) string {
	var answered *kerr.Error
	var lost *kgo.ErrDataLoss
	switch {
	case errors.As(err, &answered):
		return answered.Message
	case errors.As(err, &lost):
		return "ErrDataLoss"
	case errors.Is(err, kgo.ErrRecordTimeout):
		return "ErrRecordTimeout"
	case errors.Is(err, kgo.ErrRecordRetries):
		return "ErrRecordRetries"
	case errors.Is(err, kgo.ErrClientClosed):
		return "ErrClientClosed"
	}
	fmt.Fprintln(os.Stderr, err)
	return "Unknown"
}

func (p *program) flush() {
	if err := p.client.Flush(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	p.say("flushed")
}

func (p *program) say(line string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.said.WriteString(line)
	p.said.WriteByte('\n')
	p.said.Flush()
}

func milliseconds(number int) time.Duration {
	return time.Duration(number) * time.Millisecond
}
