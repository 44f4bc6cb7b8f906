const answer = await fetch(process.argv[2]);
console.log(answer.status, await answer.text());
process.exit(answer.ok ? 0 : 1);
