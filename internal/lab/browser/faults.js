(() => {
  const found = [];
  const view = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colour = (text) => { view.clearRect(0, 0, 1, 1); view.fillStyle = text; view.fillRect(0, 0, 1, 1); return [...view.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => {
    const part = (c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const got = colour(getComputedStyle(one).backgroundColor);
      if (got[3] === 255) return got;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches && getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [18, 18, 18] : [255, 255, 255];
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) if (box.width > 0 && box.right > 0) texts.push({ element, box, text: node.data.trim().slice(0, 40) });
  }
  const poor = new Set();
  for (const { element, text } of texts) {
    const a = light(colour(getComputedStyle(element).color)), b = light(behind(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const kind = `${element.tagName} ${element.className} ${ratio.toFixed(2)}`;
    if (ratio < 4.5 && !poor.has(kind)) { poor.add(kind); found.push(`contrast ${ratio.toFixed(2)}: ${text}`); }
  }
  texts.sort((a, b) => a.box.top - b.box.top);
  for (let i = 0; i < texts.length; i++) {
    for (let j = i + 1; j < texts.length && texts[j].box.top < texts[i].box.bottom - 3; j++) {
      const a = texts[i].box, b = texts[j].box;
      if (texts[i].element !== texts[j].element && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2) {
        found.push(`overlap: ${texts[i].text} and ${texts[j].text}`);
      }
    }
  }
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) found.push(`overflow: ${page.scrollWidth} wide in ${page.clientWidth}`);
  return found.slice(0, 20);
})()
