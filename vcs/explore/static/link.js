// The connection to the server: questions with answers, progress on the way, and a new try when it breaks.

const WAITS = [300, 600, 1000, 2000, 4000];

export class Link {
  // onOpen() after every connection; onState(state, text) with state "on", "wait" or "off"
  constructor(onOpen, onState) {
    this.onOpen = onOpen;
    this.onState = onState;
    this.next = 1;
    this.asked = new Map();
    this.tries = 0;
    this.connect();
  }

  connect() {
    const address = new URL("ws", location.href);
    address.protocol = "ws:";
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => { this.tries = 0; this.onState("on", "connected"); this.onOpen(); };
    this.socket.onmessage = (event) => this.take(event.data);
    this.socket.onclose = () => this.lost();
  }

  async lost() {
    for (const { fail } of this.asked.values()) fail(new Error("the connection was lost"));
    this.asked.clear();
    let text = "no server: trying again";
    let state = "wait";
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.status === 403) {
        state = "off";
        text = "new token: open the address the server printed in this tab";
      }
    } catch { /* nobody listens: the text says so */ }
    this.onState(state, text);
    setTimeout(() => this.connect(), WAITS[Math.min(this.tries++, WAITS.length - 1)]);
  }

  take(data) {
    let answer, body = null;
    if (typeof data === "string") answer = JSON.parse(data);
    else {
      const size = new DataView(data).getUint32(0, true);
      answer = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, size)));
      body = new Uint8Array(data, 4 + size);
    }
    const question = this.asked.get(answer.id);
    if (!question) {
      if (answer.error) this.onState("off", answer.error);
      return;
    }
    if ("progress" in answer) { question.progress?.(answer); return; }
    this.asked.delete(answer.id);
    if (answer.error) question.fail(new Error(answer.error));
    else { answer.body = body; question.done(answer); }
  }

  // The answer to {op, ...}; progress(part) is called for parts that come before it.
  ask(message, progress) {
    return new Promise((done, fail) => {
      if (this.socket.readyState !== WebSocket.OPEN) { fail(new Error("not connected")); return; }
      const id = this.next++;
      this.asked.set(id, { done, fail, progress });
      this.socket.send(JSON.stringify({ id, ...message }));
    });
  }
}
