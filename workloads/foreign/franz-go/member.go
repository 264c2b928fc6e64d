package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	pollFor      = 100 * time.Millisecond
	pollAtMost   = 500
	answerWithin = 10 * time.Second
	leaveWithin  = 10 * time.Second
	noEpoch      = -1
	latest       = -1 // the timestamp by which ListOffsets means the end of a log
)

// A member of a group. It does one thing at a time, as it is told, except that a poll and the
// leaving of the group go on while the callback of a rebalance is answered. Callbacks of the
// library wait for that in goroutines of their own, until the next poll.
type member struct {
	*program
	client    *kgo.Client
	rebalance chan event
	read      map[int32]kgo.EpochOffset // behind the last record
	sought    map[int32]int64
}

// An event is a rebalance that was reported to its callback, which waits until it is over.
type event struct {
	what       string
	partitions []int32
	over       chan struct{}
}

func (p *program) subscribe() error {
	m := &member{
		program:   p,
		rebalance: make(chan event),
		read:      map[int32]kgo.EpochOffset{},
		sought:    map[int32]int64{},
	}
	options, err := m.options()
	if err != nil {
		return err
	}
	if m.client, err = kgo.NewClient(options...); err != nil {
		return err
	}
	m.ready()
	return m.obeyUntil("")
}

func (m *member) options() ([]kgo.Opt, error) {
	secured, err := security(m.properties)
	if err != nil {
		return nil, err
	}
	options := append(secured,
		kgo.ConsumeTopics(m.topic),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.reported("assigned")),
		kgo.OnPartitionsRevoked(m.reported("revoked")),
		kgo.OnPartitionsLost(m.reported("lost")),
		kgo.AdjustFetchOffsetsFn(m.adjusted),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	)
	for name, value := range m.properties {
		if securing(name) {
			continue
		}
		option, err := memberOption(name, value)
		if err != nil {
			return nil, fmt.Errorf("property %s: %w", name, err)
		}
		if option != nil {
			options = append(options, option)
		}
	}
	return options, nil
}

func memberOption(name, value string) (kgo.Opt, error) {
	switch name {
	case "bootstrap.servers":
		return kgo.SeedBrokers(strings.Split(value, ",")...), nil
	case "client.id":
		return kgo.ClientID(value), nil
	case "group.id":
		return kgo.ConsumerGroup(value), nil
	case "group.instance.id":
		return kgo.InstanceID(value), nil
	case "client.rack":
		return kgo.Rack(value), nil
	case "isolation.level":
		if value == "read_committed" {
			return kgo.FetchIsolationLevel(kgo.ReadCommitted()), nil
		}
		return nil, nil
	case "auto.offset.reset":
		return kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), nil
	case "partition.assignment.strategy":
		return balancers(value)
	case "enable.auto.commit":
		return nil, nil
	}
	number, err := strconv.Atoi(value)
	if err != nil {
		return nil, err
	}
	switch name {
	case "session.timeout.ms":
		return kgo.SessionTimeout(milliseconds(number)), nil
	case "heartbeat.interval.ms":
		return kgo.HeartbeatInterval(milliseconds(number)), nil
	case "max.poll.interval.ms":
		return kgo.RebalanceTimeout(milliseconds(number)), nil
	case "fetch.max.bytes":
		return kgo.FetchMaxBytes(int32(number)), nil
	case "fetch.max.wait.ms":
		return kgo.FetchMaxWait(milliseconds(number)), nil
	case "fetch.min.bytes":
		return kgo.FetchMinBytes(int32(number)), nil
	case "max.partition.fetch.bytes":
		return kgo.FetchMaxPartitionBytes(int32(number)), nil
	}
	return nil, errors.New("franz-go has nothing for it")
}

func balancers(value string) (kgo.Opt, error) {
	known := map[string]kgo.GroupBalancer{
		"RangeAssignor":             kgo.RangeBalancer(),
		"RoundRobinAssignor":        kgo.RoundRobinBalancer(),
		"StickyAssignor":            kgo.StickyBalancer(),
		"CooperativeStickyAssignor": kgo.CooperativeStickyBalancer(),
	}
	var found []kgo.GroupBalancer
	for _, class := range strings.Split(value, ",") {
		name := class[strings.LastIndex(class, ".")+1:]
		balancer, is := known[name]
		if !is {
			return nil, fmt.Errorf("franz-go has no %s", name)
		}
		found = append(found, balancer)
	}
	return kgo.Balancers(found...), nil
}

func (m *member) obeyUntil(last string) error {
	for {
		line, err := m.lines.ReadString('\n')
		if err != nil {
			return nil // the end of the input
		}
		line = strings.TrimSuffix(line, "\n")
		if line == last {
			return nil
		}
		if err := m.obey(line); err != nil {
			return err
		}
	}
}

func (m *member) obey(line string) error {
	words := strings.Split(line, " ")
	numbers := make([]int64, 0, len(words))
	for _, word := range words[1:] {
		number, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return err
		}
		numbers = append(numbers, number)
	}
	switch words[0] {
	case "poll":
		return m.poll()
	case "commit":
		m.answer(m.commit(numbers))
	case "committed":
		m.answer(m.committed(numbers))
	case "seek":
		m.sought[int32(numbers[0])] = numbers[1]
		m.say("done")
	case "end":
		m.answer(m.end(int32(numbers[0])))
	case "close":
		return m.leave()
	default:
		return fmt.Errorf("told what is no line: %s", words[0])
	}
	return nil
}

func (m *member) answer(err error) {
	switch {
	case err == nil:
		m.say("done")
	case errors.Is(err, kerr.FencedInstanceID) || errors.Is(err, kerr.GroupAuthorizationFailed):
		m.say("undone fatal " + named(err))
	default:
		m.say("undone retriable " + named(err))
	}
}

func (m *member) reported(what string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, of map[string][]int32) {
		one := event{what: what, partitions: of[m.topic], over: make(chan struct{})}
		m.rebalance <- one
		<-one.over
	}
}

// during answers rebalances until done, in whichever goroutine that happens.
func (m *member) during(done <-chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		case one := <-m.rebalance:
			line := one.what
			slices.Sort(one.partitions)
			for _, partition := range one.partitions {
				line += " " + strconv.Itoa(int(partition))
				if one.what == "assigned" {
					delete(m.sought, partition)
					delete(m.read, partition)
				}
			}
			m.say(line)
			err := m.obeyUntil("proceed")
			close(one.over)
			if err != nil {
				return err
			}
		}
	}
}

func (m *member) poll() error {
	m.client.AllowRebalance()
	var fetches kgo.Fetches
	done := make(chan struct{})
	go func() {
		within, cancel := context.WithTimeout(context.Background(), pollFor)
		defer cancel()
		fetches = m.client.PollRecords(within, pollAtMost)
		close(done)
	}()
	if err := m.during(done); err != nil {
		return err
	}
	fetches.EachError(func(_ string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			fmt.Fprintf(os.Stderr, "partition %d: %v\n", partition, err)
		}
	})
	fetches.EachRecord(func(r *kgo.Record) {
		m.read[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
		kind, value := "record", r.Value
		if value == nil {
			for _, header := range r.Headers {
				if header.Key == tombstoneHeader && header.Value != nil {
					kind, value = "tombstone", header.Value
				}
			}
		}
		said := "-"
		if value != nil {
			said = base64.StdEncoding.EncodeToString(value)
		}
		m.say(fmt.Sprintf("%s %d %d %s %s", kind, r.Partition, r.Offset, epoch(r.LeaderEpoch), said))
	})
	m.say("polled")
	return nil
}

func epoch(number int32) string {
	if number == noEpoch {
		return "-"
	}
	return strconv.Itoa(int(number))
}

func (m *member) commit(numbers []int64) error {
	offsets := map[int32]kgo.EpochOffset{}
	for place := 0; place+1 < len(numbers); place += 2 {
		partition, offset := int32(numbers[place]), numbers[place+1]
		at := kgo.EpochOffset{Epoch: noEpoch, Offset: offset}
		if known := m.read[partition]; known.Offset == offset {
			at = known
		}
		offsets[partition] = at
	}
	within, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	var failed error
	m.client.CommitOffsetsSync(within, map[string]map[int32]kgo.EpochOffset{m.topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if response == nil {
				return
			}
			for _, topic := range response.Topics {
				for _, one := range topic.Partitions {
					failed = errors.Join(failed, kerr.ErrorForCode(one.ErrorCode))
				}
			}
		})
	return failed
}

func (m *member) committed(partitions []int64) error {
	topic := kmsg.NewOffsetFetchRequestTopic()
	topic.Topic = m.topic
	for _, partition := range partitions {
		topic.Partitions = append(topic.Partitions, int32(partition))
	}
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group = m.properties["group.id"]
	request.Topics = append(request.Topics, topic)
	within, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	response, err := request.RequestWith(within, m.client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, one := range topic.Partitions {
			if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
				return err
			}
			offset := "-"
			if one.Offset >= 0 {
				offset = strconv.FormatInt(one.Offset, 10)
			}
			m.say(fmt.Sprintf("offset %d %s", one.Partition, offset))
		}
	}
	return nil
}

// adjusted puts what was sought in the place of what the library fetched at an assignment.
func (m *member) adjusted(
	_ context.Context, offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	for partition := range offsets[m.topic] {
		if sought, is := m.sought[partition]; is {
			offsets[m.topic][partition] = kgo.NewOffset().At(sought)
		}
	}
	return offsets, nil
}

func (m *member) end(partition int32) error {
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition = partition
	part.Timestamp = latest
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = m.topic
	topic.Partitions = append(topic.Partitions, part)
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	if m.properties["isolation.level"] == "read_committed" {
		request.IsolationLevel = 1
	}
	request.Topics = append(request.Topics, topic)
	within, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	response, err := request.RequestWith(within, m.client)
	if err != nil {
		return err
	}
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return errors.New("no answer about the partition")
	}
	found := response.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		return err
	}
	position := max(m.read[partition].Offset, m.sought[partition])
	m.say(fmt.Sprintf("end %d %d %d", partition, position, found.Offset))
	return nil
}

func (m *member) leave() error {
	m.client.AllowRebalance()
	done := make(chan struct{})
	go func() {
		within, cancel := context.WithTimeout(context.Background(), leaveWithin)
		defer cancel()
		if err := m.client.LeaveGroupContext(within); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		close(done)
	}()
	if err := m.during(done); err != nil {
		return err
	}
	m.say("done")
	return nil
}
