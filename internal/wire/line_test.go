package wire

import (
	"net"
	"slices"
	"testing"
	"time"
)

// Many alarms at once must not wait for each other: a network has room for all.
func TestAlarmsDoNotWaitForEachOther(t *testing.T) {
	const alarms, rounds, delay = 64, 20, 5 * time.Millisecond
	begun := time.Now()
	ended := make(chan error)
	for range alarms {
		go func() {
			a, err := newAlarm()
			for range rounds {
				if err == nil {
					due := time.Now().Add(delay)
					if err = a.until(due); time.Now().Before(due) {
						t.Error("an alarm came early")
					}
				}
			}
			a.close()
			ended <- err
		}()
	}
	for range alarms {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(begun); took > 10*rounds*delay {
		t.Errorf("%d alarms of %v, %d times one after the other, took %v", alarms, delay, rounds, took)
	}
}

func TestTrickledBytesComeOneByOne(t *testing.T) {
	reader, writer := net.Pipe()
	l := newLine(writer, 0, make(chan struct{}))
	l.slow = true
	go func() {
		l.send([]byte("trickle"))
		l.send([]byte("whole"))
		writer.Close()
	}()
	var sizes []int
	for buf := make([]byte, 64); ; {
		n, err := reader.Read(buf)
		if err != nil {
			break
		}
		sizes = append(sizes, n)
	}
	if !slices.Equal(sizes, []int{1, 1, 1, 1, 1, 1, 1, 5}) {
		t.Errorf("reads of %v bytes", sizes)
	}
}
