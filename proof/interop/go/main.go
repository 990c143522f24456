// A process with redsync that executes commands for plain locks, as src/main.rs does with bandog. Arguments: the
// server's URL, and the ttl of locks in ms.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Maximum number of commands that wait for a thread.
const waiting = 64

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "redsync:", err)
		os.Exit(1)
	}
}

// serve executes commands until the input ends. Commands of one thread are executed in their order.
func serve(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: redsync URL TTL_MS")
	}
	options, err := redis.ParseURL(args[0])
	if err != nil {
		return err
	}
	ttl, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	locks := redsync.New(goredis.NewPool(redis.NewClient(options)))
	var answers sync.Mutex
	threads := map[string]chan []string{}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		if len(words) < 5 {
			return errors.New("a command has too few words")
		}
		commands, found := threads[words[1]]
		if !found {
			commands = make(chan []string, waiting)
			threads[words[1]] = commands
			go func() {
				worker := worker{locks, time.Duration(ttl) * time.Millisecond, map[string]*redsync.Mutex{}}
				for words := range commands {
					answer, err := worker.obey(words[2], words[3], words[4], words[5:])
					if err != nil {
						answer = "error " + err.Error()
					}
					answers.Lock()
					fmt.Println(words[0] + "\t" + answer)
					answers.Unlock()
				}
			}()
		}
		commands <- words
	}
	return lines.Err()
}

// A worker is one thread, and the locks that it holds, by their names.
type worker struct {
	locks *redsync.Redsync
	ttl   time.Duration
	held  map[string]*redsync.Mutex
}

func (w *worker) obey(kind, verb, name string, args []string) (string, error) {
	if kind != "lock" {
		return "", errors.New("redsync has plain locks only")
	}
	switch verb {
	case "lock":
		lock, err := w.lock(name)
		if err != nil {
			return "", err
		}
		w.held[name] = lock
		return "held", nil
	case "try":
		lock := w.mutex(name)
		err := lock.TryLock()
		var taken *redsync.ErrTaken
		if errors.As(err, &taken) {
			return "busy", nil
		}
		if err != nil {
			return "", err
		}
		w.held[name] = lock
		return "held", nil
	case "unlock":
		lock, found := w.held[name]
		if !found {
			return "", errors.New("this thread does not hold the lock")
		}
		delete(w.held, name)
		if _, err := lock.Unlock(); err != nil {
			return "", err
		}
		return "freed", nil
	case "count":
		return args[1], w.count(name, args)
	}
	return "", fmt.Errorf("unknown verb %s", verb)
}

// mutex makes a mutex that tries until it is granted.
func (w *worker) mutex(name string) *redsync.Mutex {
	delay := redsync.WithRetryDelay(5 * time.Millisecond)
	return w.locks.NewMutex(name, redsync.WithExpiry(w.ttl), redsync.WithTries(20000), delay)
}

func (w *worker) lock(name string) (*redsync.Mutex, error) {
	lock := w.mutex(name)
	return lock, lock.Lock()
}

// count adds one to the counter in a file repeatedly, each time under the lock. The arguments are the path of the file
// and the number of times.
func (w *worker) count(name string, args []string) error {
	file, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	times, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for range times {
		lock, err := w.lock(name)
		if err != nil {
			return err
		}
		if err := add(file); err != nil {
			return err
		}
		if _, err := lock.Unlock(); err != nil {
			return err
		}
	}
	return nil
}

// add adds one to the counter in a file: two big-endian numbers, the count, and the fence of the last addition.
func add(file *os.File) error {
	var halves [16]byte
	if _, err := file.ReadAt(halves[:], 0); err != nil {
		return err
	}
	binary.BigEndian.PutUint64(halves[:8], binary.BigEndian.Uint64(halves[:8])+1)
	binary.BigEndian.PutUint64(halves[8:], 0)
	_, err := file.WriteAt(halves[:], 0)
	return err
}
