"""Between a node and the front end: what either says arrives so many seconds later, however much it is. ARGV: port to listen at, host, port, delay."""
import asyncio, sys

PORT, TO, DELAY = int(sys.argv[1]), (sys.argv[2], int(sys.argv[3])), float(sys.argv[4])


async def carry(reader, writer):
    late = asyncio.Queue()

    async def deliver():
        while True:
            at, data = await late.get()
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    delivery = asyncio.create_task(deliver())
    data = b"-"
    while data:
        try:
            data = await reader.read(65536)
        except ConnectionError:
            data = b""
        late.put_nowait((asyncio.get_running_loop().time() + DELAY, data))
    try:
        await delivery
    except (ConnectionError, OSError):
        pass


async def taken(reader, writer):
    there = await asyncio.open_connection(*TO)
    await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))
    for end in (writer, there[1]):
        end.close()


async def main():
    server = await asyncio.start_server(taken, "0.0.0.0", PORT)
    print("ready", flush=True)
    await server.serve_forever()


asyncio.run(main())
