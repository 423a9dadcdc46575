// A button on every block of code that copies it: commands without prompts, and without output.
document.addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return; // pages opened from a disk in some browsers
  for (const block of document.querySelectorAll("div.highlight")) {
    const pre = block.querySelector("pre");
    if (!pre || block.closest(".highlight-text, .sphx-glr-script-out")) continue;
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(commands(pre.textContent));
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.append(button);
  }
});

function commands(text) {
  const prompt = /^(>>> ?|\.\.\. ?|\$ )/;
  const lines = text.trimEnd().split("\n");
  if (!lines.some((line) => prompt.test(line))) return text.trimEnd();
  return lines.filter((line) => prompt.test(line)).map((line) => line.replace(prompt, "")).join("\n");
}
